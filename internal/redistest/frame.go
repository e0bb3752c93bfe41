package redistest

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// readFrame reads one whole RESP value, of version 2 or 3, and returns its bytes unchanged.
func readFrame(r *bufio.Reader) ([]byte, error) { return appendFrame(nil, r) }

func appendFrame(b []byte, r *bufio.Reader) ([]byte, error) {
	line, err := r.ReadBytes('\n')
	if err != nil {
		return nil, err
	}
	if len(line) < 3 {
		return nil, fmt.Errorf("not RESP: %q", line)
	}
	b = append(b, line...)
	kind := line[0]
	if !strings.ContainsRune("$=!*~>%|", rune(kind)) {
		return b, nil // simple: the line is all of it
	}
	n, err := strconv.Atoi(string(line[1 : len(line)-2]))
	if err != nil {
		return nil, fmt.Errorf("not RESP: %q", line)
	}
	switch kind {
	case '$', '=', '!':
		if n < 0 {
			return b, nil
		}
		start := len(b)
		b = append(b, make([]byte, n+2)...)
		_, err = io.ReadFull(r, b[start:])
		return b, err
	case '%':
		n *= 2
	case '|':
		n = 2*n + 1 // attributes, then the value that they speak of
	}
	for range n {
		if b, err = appendFrame(b, r); err != nil {
			return nil, err
		}
	}
	return b, nil
}

// request returns the words of a command as a client sends it.
func request(frame []byte) []string {
	value, _, err := parse(frame)
	list, ok := value.([]any)
	if err != nil || !ok {
		return []string{string(frame)}
	}
	words := make([]string, len(list))
	for i, word := range list {
		words[i], _ = word.(string)
	}
	return words
}

func cutLine(b []byte) (line, rest []byte) {
	line, rest, _ = bytes.Cut(b, []byte("\r\n"))
	return line, rest
}

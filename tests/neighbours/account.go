package neighbours

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// account is what the server's own log of its writes says about each lock: who held it, one after the
// other, and until when. The log has every effect in order, whatever script caused it. It knows the
// three ways in which a lock is kept: a hash whose field is the holder, a string whose value is the
// holder, and a time at which the key expires.
type account struct {
	lives   map[string][]life // by key
	doubles []string          // holders that were written beside another that lived
}

// life is a lock's key from when a holder made it to its end.
type life struct {
	holder string
	first  int64 // the first expiry, in ms of the server's clock: the grant was a TTL earlier
	last   int64 // the last expiry
	ended  bool  // it was deleted, or has expired; else it may still be there
}

// readAccount reads a log of a server that syncs it before each answer.
func readAccount(r io.Reader) (*account, error) {
	a := &account{lives: make(map[string][]life)}
	in := bufio.NewReaderSize(r, 1<<16)
	for {
		words, err := readCommand(in)
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return a, nil // what a crash has cut off was not answered
		}
		if err != nil {
			return nil, err
		}
		a.apply(words)
	}
}

// readCommand reads *N, and N times $LENGTH and a word.
func readCommand(in *bufio.Reader) ([]string, error) {
	count, err := readLength(in, '*')
	if err != nil {
		return nil, err
	}
	words := make([]string, count)
	for i := range words {
		n, err := readLength(in, '$')
		if err != nil {
			return nil, err
		}
		data := make([]byte, n+2)
		if _, err := io.ReadFull(in, data); err != nil {
			return nil, err
		}
		words[i] = string(data[:n])
	}
	return words, nil
}

func readLength(in *bufio.Reader, kind byte) (int, error) {
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return 0, err
		}
		if line[0] == '#' {
			continue // a time
		}
		n, err := strconv.Atoi(strings.TrimSpace(line[1:]))
		if line[0] != kind || err != nil || n < 0 {
			return 0, fmt.Errorf("the log has %q where %q and a number belong", line, kind)
		}
		return n, nil
	}
}

// apply notes a command. What it does not know does not concern a lock's holder.
func (a *account) apply(words []string) {
	if len(words) < 2 {
		return
	}
	switch key := words[1]; strings.ToUpper(words[0]) {
	case "HSET", "HINCRBY":
		if words[2] != "mode" { // of a read-write lock
			a.begin(key, words[2])
		}
	case "HDEL":
		if l := a.alive(key); l != nil && l.holder == words[2] {
			l.ended = true
		}
	case "SET":
		a.set(key, words[2:])
	case "PEXPIREAT":
		if l := a.alive(key); l != nil {
			l.extend(words[2])
		}
	case "DEL", "UNLINK":
		for _, key := range words[1:] {
			if l := a.alive(key); l != nil {
				l.ended = true
			}
		}
	default:
	}
}

func (a *account) set(key string, words []string) {
	if l := a.alive(key); l != nil && l.holder != words[0] {
		l.ended = true // it was replaced
	}
	a.begin(key, words[0])
	for i, word := range words {
		if strings.EqualFold(word, "PXAT") && i+1 < len(words) {
			a.alive(key).extend(words[i+1])
		}
	}
}

// begin notes that the key has a holder.
func (a *account) begin(key, holder string) {
	switch l := a.alive(key); {
	case l == nil:
		a.lives[key] = append(a.lives[key], life{holder: holder})
	case l.holder != holder:
		a.doubles = append(a.doubles, fmt.Sprintf("%s: %s beside %s", key, holder, l.holder))
	}
}

func (a *account) alive(key string) *life {
	lives := a.lives[key]
	if n := len(lives); n > 0 && !lives[n-1].ended {
		return &lives[n-1]
	}
	return nil
}

func (l *life) extend(text string) {
	at, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return
	}
	if l.first == 0 {
		l.first = at
	}
	l.last = at
}

// end says whether the lease that a holder has had since one instant was over at another, and how it
// ended; empty: it was not over. All times are in ms of the server's clock.
func (a *account) end(key, holder string, since, at, ttl int64) Reason {
	const rounding = 2 // of two clocks that are read in whole ms
	lives := a.lives[key]
	for i, l := range slices.Backward(lives) {
		if holder != "" && l.holder != holder || l.first-ttl > since+rounding {
			continue
		}
		until := l.last // when the next got it
		if i+1 < len(lives) {
			until = lives[i+1].first - ttl
		}
		switch {
		case until < l.last-rounding && until <= at:
			return Taken
		case l.last <= at:
			return Overstayed
		}
		return ""
	}
	return Taken // the server never gave it the lock
}

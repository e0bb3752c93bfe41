// Package screen is what the tool shows: the terminal that top draws on, and JSON that is safe to
// print.
package screen

import (
	"os"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/term"
)

// Terminal is the terminal in raw mode, with a screen of its own: what was there before is
// there again at the end. It is so little that a library for it would cost more than it
// saves: the largest one would add a tenth to the tool.
type Terminal struct {
	in, out *os.File
	before  *term.State
	Keys    chan string // closed at the end of the input
	shown   []string    // what the terminal shows; nil: unknown
	done    chan struct{}
}

const (
	enterScreen = "\x1b[?1049h\x1b[?25l\x1b[2J" // the other screen, without a cursor, empty
	leaveScreen = "\x1b[?25h\x1b[?1049l"
)

// Open takes the terminal over, until Close.
func Open(in, out *os.File) (*Terminal, error) {
	before, err := term.MakeRaw(int(in.Fd()))
	if err != nil {
		return nil, err
	}
	s := &Terminal{in: in, out: out, before: before, Keys: make(chan string), done: make(chan struct{})}
	if _, err := out.WriteString(enterScreen); err != nil {
		term.Restore(int(in.Fd()), before) //nolint:errcheck // the first error says it
		return nil, err
	}
	go s.read()
	return s, nil
}

// Close gives the terminal back.
func (s *Terminal) Close() {
	close(s.done)
	s.out.WriteString(leaveScreen)         //nolint:errcheck // there is nothing else to do
	term.Restore(int(s.in.Fd()), s.before) //nolint:errcheck // there is nothing else to do
}

// Size is the size of the terminal; one that does not tell has 80 columns and 24 rows.
func (s *Terminal) Size() (width, height int) {
	width, height, err := term.GetSize(int(s.out.Fd()))
	if err != nil || width <= 0 || height <= 0 {
		return 80, 24
	}
	return width, height
}

// Forget draws all lines the next time.
func (s *Terminal) Forget() { s.shown = nil }

// Draw writes the lines that have changed.
func (s *Terminal) Draw(lines []string) error {
	var b strings.Builder
	if len(lines) != len(s.shown) {
		s.shown = make([]string, len(lines))
		b.WriteString("\x1b[2J")
	}
	for i, line := range lines {
		if line != s.shown[i] {
			// Cleared before: behind a full line, the cursor still stands on its last character.
			b.WriteString("\x1b[" + strconv.Itoa(i+1) + ";1H\x1b[K" + line)
		}
	}
	s.shown = lines
	_, err := s.out.WriteString(b.String())
	return err
}

// escapeAfter is how long an escape character waits for the rest of a key. A terminal sends a
// key at once, but a slow connection may cut it.
const escapeAfter = 50 * time.Millisecond

// read decodes the input into keys.
func (s *Terminal) read() {
	defer close(s.Keys)
	input := make(chan []byte)
	go func() {
		defer close(input)
		buffer := make([]byte, 256)
		for {
			n, err := s.in.Read(buffer)
			if err != nil {
				return
			}
			select {
			case input <- append([]byte(nil), buffer[:n]...):
			case <-s.done:
				return
			}
		}
	}()
	var rest []byte
	for {
		var late <-chan time.Time
		if len(rest) > 0 {
			late = time.After(escapeAfter)
		}
		var keys []string
		select {
		case more, ok := <-input:
			if !ok {
				return
			}
			keys, rest = decodeKeys(append(rest, more...), false)
		case <-late:
			keys, rest = decodeKeys(rest, true)
		case <-s.done:
			return
		}
		for _, key := range keys {
			select {
			case s.Keys <- key:
			case <-s.done:
				return
			}
		}
	}
}

// sequences are what terminals send for keys, after the escape character.
var sequences = map[string]string{
	"[A": "up", "[B": "down", "[H": "home", "[F": "end", "OA": "up", "OB": "down", "OH": "home", "OF": "end",
	"[1~": "home", "[4~": "end", "[5~": "pgup", "[6~": "pgdn", "[7~": "home", "[8~": "end",
}

// decodeKeys takes keys from the input. What may be the beginning of a key is left for the
// next time, unless no more comes.
func decodeKeys(in []byte, over bool) (keys []string, rest []byte) {
	for len(in) > 0 {
		if in[0] == 0x1b {
			n := sequenceLength(in)
			switch {
			case n == 0 && !over:
				return keys, in
			case n <= 1:
				keys, in = append(keys, "esc"), in[1:]
			default:
				if key := sequences[string(in[1:n])]; key != "" {
					keys = append(keys, key)
				}
				in = in[n:]
			}
			continue
		}
		r, size := utf8.DecodeRune(in)
		if r == utf8.RuneError && !utf8.FullRune(in) && !over {
			return keys, in
		}
		in = in[size:]
		switch {
		case r == '\r' || r == '\n':
			keys = append(keys, "enter")
		case r == 0x7f || r == '\b':
			keys = append(keys, "backspace")
		case r == 0x03:
			keys = append(keys, "ctrl-c")
		case r >= ' ' && r != utf8.RuneError && (r < 0x80 || r >= 0xa0):
			keys = append(keys, string(r))
		}
	}
	return keys, nil
}

// sequenceLength is how long the key at the beginning is: 0 if its end has not come yet, and
// 1 for an escape character that begins none.
func sequenceLength(in []byte) int {
	if len(in) == 1 {
		return 0
	}
	switch in[1] {
	case 'O':
		if len(in) < 3 {
			return 0
		}
		return 3
	case '[':
		for i, c := range in[2:] {
			if 0x40 <= c && c <= 0x7e {
				return i + 3
			}
		}
		return 0
	}
	return 1
}

package history

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"
)

// field is one that most lines have.
type field struct {
	name  string
	again bool // it has the same words again and again
	of    func(*Event) any
}

// fields are in the order of [Event].
var fields = []field{
	{"at", false, func(e *Event) any { return &e.At }},
	{"kind", true, func(e *Event) any { return (*string)(&e.Kind) }},
	{"proc", false, func(e *Event) any { return &e.Proc }},
	{"client", true, func(e *Event) any { return &e.Client }},
	{"work", true, func(e *Event) any { return &e.Work }},
	{"lock", true, func(e *Event) any { return &e.Lock }},
	{"id", false, func(e *Event) any { return &e.ID }},
	{"mode", true, func(e *Event) any { return &e.Mode }},
	{"weight", false, func(e *Event) any { return &e.Weight }},
	{"owner", false, func(e *Event) any { return &e.Owner }},
	{"name", true, func(e *Event) any { return &e.Name }},
	{"token", false, func(e *Event) any { return &e.Token }},
	{"asked", false, func(e *Event) any { return &e.Asked }},
	{"trusted", false, func(e *Event) any { return &e.Trusted }},
	{"how", true, func(e *Event) any { return &e.How }},
	{"err", false, func(e *Event) any { return &e.Err }},
	{"local", false, func(e *Event) any { return &e.Local }},
	{"least", false, func(e *Event) any { return (*int64)(&e.Least) }},
	{"value", false, func(e *Event) any { return &e.Value }},
	{"plain", false, func(e *Event) any { return &e.Plain }},
	{"stale", false, func(e *Event) any { return &e.Stale }},
	{"text", false, func(e *Event) any { return &e.Text }},
}

// AppendLine appends an event as a line of JSON, as [json.Marshal] would write it. A
// history is mostly a few short fields again and again: written and read by hand they
// cost a fraction.
func AppendLine(b []byte, e *Event) []byte {
	b = strconv.AppendInt(append(b, `{"at":`...), e.At, 10)
	b = quote(append(b, `,"kind":`...), string(e.Kind))
	for i := 2; i < len(fields); i++ { // those that are left out if they are zero
		f, before := &fields[i], len(b)
		b = append(append(append(b, `,"`...), f.name...), `":`...)
		value := len(b)
		switch p := f.of(e).(type) {
		case *string:
			if *p != "" {
				b = quote(b, *p)
			}
		case *bool:
			if *p {
				b = append(b, "true"...)
			}
		case *uint64:
			if *p != 0 {
				b = strconv.AppendUint(b, *p, 10)
			}
		case *int64:
			if *p != 0 {
				b = strconv.AppendInt(b, *p, 10)
			}
		case *int:
			if *p != 0 {
				b = strconv.AppendInt(b, int64(*p), 10)
			}
		}
		if len(b) == value {
			b = b[:before]
		}
	}
	if e.Fault != nil {
		b = rare(b, `,"fault":`, e.Fault)
	}
	if e.Setup != nil {
		b = rare(b, `,"setup":`, e.Setup)
	}
	if len(e.Counts) > 0 {
		b = rare(b, `,"counts":`, e.Counts)
	}
	return append(b, "}\n"...)
}

func rare(b []byte, name string, v any) []byte {
	value, err := json.Marshal(v)
	if err != nil {
		panic("BUG: part of an event has no JSON: " + err.Error())
	}
	return append(append(b, name...), value...)
}

// quote appends a string of JSON.
func quote(b []byte, s string) []byte {
	start := len(b)
	b = append(b, '"')
	for i := range len(s) {
		switch c := s[i]; {
		case c == '\n':
			b = append(b, `\n`...)
		case c == '\t':
			b = append(b, `\t`...)
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
		case c < ' ' || c >= 0x7f || c == '<' || c == '>' || c == '&':
			return rare(b[:start], "", s)
		default:
			b = append(b, c)
		}
	}
	return append(b, '"')
}

// Reader reads the lines of events. It keeps one copy of the words that come again and
// again. It is not safe for use by many goroutines; the zero Reader is ready.
type Reader struct{ words map[string]string }

// mostWords bounds the words that a Reader keeps.
const mostWords = 1 << 16

// word is a string that has most likely been there before.
func (r *Reader) word(b []byte) string {
	if s, ok := r.words[string(b)]; ok {
		return s
	}
	s := string(b)
	if r.words == nil {
		r.words = make(map[string]string)
	}
	if len(r.words) < mostWords {
		r.words[s] = s
	}
	return s
}

// Line reads one line. Lines that AppendLine would not write so are read, too, if they
// are JSON.
func (r *Reader) Line(line []byte) (e Event, err error) {
	if r.short(line, &e) {
		return e, nil
	}
	e = Event{}
	err = json.Unmarshal(line, &e)
	return e, err
}

// short reads a line that has no more than words, numbers and flags.
func (r *Reader) short(line []byte, e *Event) bool {
	if len(line) > 0 && line[len(line)-1] == '\n' {
		line = line[:len(line)-1]
	}
	if len(line) < 2 || line[0] != '{' || line[len(line)-1] != '}' {
		return false
	}
	line = line[1:]
	for {
		name, rest, err := word(line)
		if err != nil || len(rest) < 2 || rest[0] != ':' {
			return false
		}
		if rest, err = r.field(e, string(name), rest[1:]); err != nil || len(rest) == 0 {
			return false
		}
		if rest[0] == '}' {
			return len(rest) == 1
		}
		if rest[0] != ',' {
			return false
		}
		line = rest[1:]
	}
}

// errLong says that a line has to be read by encoding/json.
var errLong = errors.New("not written as usual")

// field reads one value into its field.
func (r *Reader) field(e *Event, name string, in []byte) (rest []byte, err error) {
	at := slices.IndexFunc(fields, func(f field) bool { return f.name == name })
	if at < 0 {
		return nil, errLong
	}
	f := &fields[at]
	text, isText := f.of(e).(*string)
	if isText {
		var value []byte
		if value, rest, err = word(in); f.again {
			*text = r.word(value)
		} else {
			*text = string(value)
		}
		return rest, err
	}
	end := max(bytes.IndexAny(in, ",}"), 0)
	value := string(in[:end])
	switch p := f.of(e).(type) {
	case *bool:
		if *p = value == "true"; !*p {
			err = errLong
		}
	case *uint64:
		*p, err = strconv.ParseUint(value, 10, 64)
	case *int64:
		*p, err = strconv.ParseInt(value, 10, 64)
	case *int:
		*p, err = strconv.Atoi(value)
	}
	return in[end:], err
}

// word reads a string of JSON at the beginning of in.
func word(in []byte) (value, rest []byte, err error) {
	if len(in) == 0 || in[0] != '"' {
		return nil, nil, errLong
	}
	for i := 1; i < len(in); i++ {
		switch c := in[i]; {
		case c == '"':
			return in[1:i], in[i+1:], nil
		case c == '\\':
			return escaped(in, i)
		case c < ' ' || c >= 0x7f:
			return nil, nil, errLong
		}
	}
	return nil, nil, errLong
}

// escaped reads on from the first backslash, at i.
func escaped(in []byte, i int) (value, rest []byte, err error) {
	value = append(make([]byte, 0, len(in)), in[1:i]...)
	for ; i < len(in); i++ {
		c := in[i]
		switch {
		case c == '"':
			return value, in[i+1:], nil
		case c < ' ' || c >= 0x7f:
			return nil, nil, errLong
		case c == '\\' && i+1 < len(in):
			i++
			at := strings.IndexByte(`nt"\/`, in[i])
			if at < 0 {
				return nil, nil, errLong
			}
			c = "\n\t\"\\/"[at]
		}
		value = append(value, c)
	}
	return nil, nil, errLong
}

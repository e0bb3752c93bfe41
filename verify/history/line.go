package history

import (
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"time"
)

// AppendLine appends an event as a line of JSON, as [json.Marshal] would write it. A
// history is mostly a few short fields again and again: written and read by hand they
// cost a tenth.
func AppendLine(b []byte, e *Event) []byte {
	b = strconv.AppendInt(append(b, `{"at":`...), e.At, 10)
	b = quote(append(b, `,"kind":`...), string(e.Kind))
	b = number(b, `,"proc":`, int64(e.Proc))
	b = text(b, `,"client":`, e.Client)
	b = text(b, `,"work":`, e.Work)
	b = text(b, `,"lock":`, e.Lock)
	if e.ID != 0 {
		b = strconv.AppendUint(append(b, `,"id":`...), e.ID, 10)
	}
	b = text(b, `,"mode":`, e.Mode)
	b = number(b, `,"weight":`, int64(e.Weight))
	b = text(b, `,"owner":`, e.Owner)
	b = text(b, `,"name":`, e.Name)
	if e.Token != 0 {
		b = strconv.AppendUint(append(b, `,"token":`...), e.Token, 10)
	}
	b = number(b, `,"asked":`, e.Asked)
	b = number(b, `,"trusted":`, e.Trusted)
	b = text(b, `,"how":`, e.How)
	b = text(b, `,"err":`, e.Err)
	b = flag(b, `,"local":`, e.Local)
	b = number(b, `,"least":`, int64(e.Least))
	b = number(b, `,"value":`, e.Value)
	b = number(b, `,"plain":`, e.Plain)
	b = flag(b, `,"stale":`, e.Stale)
	b = text(b, `,"text":`, e.Text)
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

func number(b []byte, name string, n int64) []byte {
	if n == 0 {
		return b
	}
	return strconv.AppendInt(append(b, name...), n, 10)
}

func text(b []byte, name, s string) []byte {
	if s == "" {
		return b
	}
	return quote(append(b, name...), s)
}

func flag(b []byte, name string, is bool) []byte {
	if !is {
		return b
	}
	return append(append(b, name...), "true"...)
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
	if len(in) > 0 && in[0] == '"' {
		return r.text(e, name, in)
	}
	end := 0
	for end < len(in) && in[end] != ',' && in[end] != '}' {
		end++
	}
	value, rest := string(in[:end]), in[end:]
	switch is := value == "true"; name {
	case "local", "stale":
		if !is {
			return nil, errLong
		}
		e.Local, e.Stale = e.Local || name == "local", e.Stale || name == "stale"
		return rest, nil
	case "id":
		e.ID, err = strconv.ParseUint(value, 10, 64)
		return rest, err
	case "token":
		e.Token, err = strconv.ParseUint(value, 10, 64)
		return rest, err
	}
	n, err := strconv.ParseInt(value, 10, 64)
	if err != nil {
		return nil, err
	}
	switch name {
	case "at":
		e.At = n
	case "proc":
		e.Proc = int(n)
	case "weight":
		e.Weight = int(n)
	case "asked":
		e.Asked = n
	case "trusted":
		e.Trusted = n
	case "least":
		e.Least = time.Duration(n)
	case "value":
		e.Value = n
	case "plain":
		e.Plain = n
	default:
		return nil, errLong
	}
	return rest, nil
}

// text reads a string into its field.
func (r *Reader) text(e *Event, name string, in []byte) (rest []byte, err error) {
	value, rest, err := word(in)
	if err != nil {
		return nil, err
	}
	switch name {
	case "kind":
		e.Kind = Kind(r.word(value))
	case "client":
		e.Client = r.word(value)
	case "work":
		e.Work = r.word(value)
	case "lock":
		e.Lock = r.word(value)
	case "mode":
		e.Mode = r.word(value)
	case "name":
		e.Name = r.word(value)
	case "how":
		e.How = r.word(value)
	case "owner":
		e.Owner = string(value)
	case "err":
		e.Err = string(value)
	case "text":
		e.Text = string(value)
	default:
		return nil, errLong
	}
	return rest, nil
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

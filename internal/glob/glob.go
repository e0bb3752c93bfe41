// Package glob matches names against patterns, as KEYS of the server does. It knows nothing of locks: the library
// and the tool share it.
package glob

import (
	"errors"
	"regexp"
	"strings"
)

// Match compiles a pattern for names: * is any text, ? is any character, [abc] is one of
// these, and \ takes a special character as it is. An empty pattern matches every name.
func Match(pattern string) (match func(name string) bool, err error) {
	if pattern == "" {
		return func(string) bool { return true }, nil
	}
	var b strings.Builder
	b.WriteString(`(?s)^`)
	class := false
	for i := 0; i < len(pattern); i++ {
		switch c := pattern[i]; {
		case c == '\\' && i+1 < len(pattern):
			i++
			b.WriteString(regexp.QuoteMeta(pattern[i : i+1]))
		case class:
			class = c != ']'
			b.WriteByte(c)
		case c == '[':
			class = true
			b.WriteByte(c)
		case c == '*':
			b.WriteString(`.*`)
		case c == '?':
			b.WriteString(`.`)
		default:
			b.WriteString(regexp.QuoteMeta(pattern[i : i+1]))
		}
	}
	b.WriteString(`$`)
	re, err := regexp.Compile(b.String())
	if err != nil {
		return nil, errors.New("a [ has no ], or a range has no end")
	}
	return re.MatchString, nil
}

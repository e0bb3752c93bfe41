package screen

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf16"
)

// JSON is v as one line of JSON that is safe to show: a terminal reads it, too. encoding/json leaves DEL,
// the control characters behind ASCII (one of them begins an escape sequence) and those that turn the text
// around them as they are. A program reads the same value either way.
func JSON(v any) ([]byte, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	var b strings.Builder
	for _, r := range string(text) {
		switch {
		case strconv.IsPrint(r):
			b.WriteRune(r)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&b, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	b.WriteByte('\n')
	return []byte(b.String()), nil
}

// WriteJSON prints v as one line.
func WriteJSON(w io.Writer, v any) error {
	text, err := JSON(v)
	if err == nil {
		_, err = w.Write(text)
	}
	return err
}

// Package wire has the bytes of format 1: the names of keys and channels, and the words of
// the answers. docs/protocol.md describes them. The package is pure: it sends and
// receives nothing.
package wire

import (
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

// MaxName is the longest lock or owner name, in bytes before encoding.
const MaxName = 512

// CheckName says what is wrong with the name of a lock or an owner.
func CheckName(name string) error {
	switch {
	case name == "":
		return errors.New("the name is empty: give the lock a name, such as invoice/42")
	case len(name) > MaxName:
		return fmt.Errorf("the name has %d bytes, the limit is %d: shorten it or use a digest of it",
			len(name), MaxName)
	case !utf8.ValidString(name):
		return errors.New("the name is not valid UTF-8: encode binary names, for example as hex")
	}
	return nil
}

// CheckPrefix says what is wrong with a prefix of keys.
func CheckPrefix(prefix string) error {
	if prefix == "" || len(prefix) > 64 {
		return fmt.Errorf("the prefix has %d bytes: it must have 1 to 64", len(prefix))
	}
	for i := range len(prefix) {
		if c := prefix[i]; !alphanumeric(c) && !strings.ContainsRune("._:/-", rune(c)) {
			return fmt.Errorf("the prefix %q has the byte %q: only letters, digits and . _ : / - are allowed",
				prefix, c)
		}
	}
	return nil
}

func alphanumeric(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
}

const hexDigits = "0123456789ABCDEF"

// special are the bytes that would end a hash tag, a word or a line.
func special(c byte) bool {
	return c <= ' ' || c == 0x7f || c == '%' || c == '{' || c == '}'
}

// Encode writes a name as one word that is safe inside a hash tag.
func Encode(name string) string {
	n := 0
	for i := range len(name) {
		if special(name[i]) {
			n++
		}
	}
	if n == 0 {
		return name
	}
	b := make([]byte, 0, len(name)+2*n)
	for i := range len(name) {
		if c := name[i]; special(c) {
			b = append(b, '%', hexDigits[c>>4], hexDigits[c&15])
		} else {
			b = append(b, c)
		}
	}
	return string(b)
}

// KeptHolder is the holder of a lock that was released and is kept for a while. No encoded
// name is like it.
const KeptHolder = "%kept"

// Owner writes an owner's name as one word that no answer takes for "nobody".
func Owner(name string) string {
	if name == "-" {
		return "%2D"
	}
	return Encode(name)
}

// Holder reads the holder of an answer: empty if there is none to show.
func Holder(word string) string {
	if word == KeptHolder {
		return ""
	}
	return Decode(word)
}

// Decode undoes Encode. What is not an encoding stays as it is.
func Decode(word string) string {
	if !strings.Contains(word, "%") {
		return word
	}
	b := make([]byte, 0, len(word))
	for i := 0; i < len(word); i++ {
		if word[i] == '%' && i+2 < len(word) {
			hi, lo := strings.IndexByte(hexDigits, word[i+1]), strings.IndexByte(hexDigits, word[i+2])
			if hi >= 0 && lo >= 0 {
				b = append(b, byte(hi<<4|lo))
				i += 2
				continue
			}
		}
		b = append(b, word[i])
	}
	return string(b)
}

// Key is the name of a lock's record.
func Key(prefix, name string) string { return prefix + ":{" + Encode(name) + "}" }

// ClientKey is the name of a client's own record.
func ClientKey(prefix, client string) string { return prefix + ":client:" + client }

// ChannelPrefix begins the names of the channels of the pushes for a lock: one channel for each
// client, or in a Cluster one for each client and lock, in the lock's slot.
func ChannelPrefix(prefix, name string, sharded bool) string {
	if sharded {
		return prefix + ":push:{" + Encode(name) + "}:"
	}
	return prefix + ":push:"
}

// Client is the part of an attempt that names its client.
func Client(attempt string) string {
	client, _, _ := strings.Cut(attempt, "/")
	return client
}

const (
	ownMark   = "=" // in an attempt, behind the number: see Own
	delayMark = "~" // in an attempt, in front of its lock-delay
)

// Suffix is the end of the attempts of a lock, after the number: own if their holds are never handed over inside the
// process, and the lock-delay.
func Suffix(own bool, delay time.Duration) (suffix string) {
	if own {
		suffix = ownMark
	}
	if delay != 0 {
		suffix += delayMark + Millis(delay)
	}
	return suffix
}

// Own reports whether the hold of an attempt is never handed over inside its process. So its token is that of its only
// lease.
func Own(attempt string) bool {
	_, rest, _ := strings.Cut(attempt, "/")
	return strings.Contains(rest, ownMark)
}

// Delay is the lock-delay of an attempt: the server keeps its lease for that much longer than its client trusts it.
func Delay(attempt string) time.Duration {
	_, d := cutDelay(attempt)
	return d
}

// cutDelay splits an attempt before its lock-delay. What is not of the form of a lock-delay stays.
func cutDelay(attempt string) (rest string, d time.Duration) {
	i := strings.LastIndex(attempt, delayMark)
	if i < 0 {
		return attempt, 0
	}
	d, err := parseMillis(attempt[i+len(delayMark):])
	if err != nil {
		return attempt, 0
	}
	return attempt[:i], d
}

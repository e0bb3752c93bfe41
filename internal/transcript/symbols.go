package transcript

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// symbols replaces numbers by symbols for their meaning, which their size tells. Tokens are
// microseconds since 1970, and times are milliseconds since 1970. Durations are at least a
// second, and counts are less than 1000.
type symbols struct {
	tokens []int64 // T1, T2, …
}

const (
	leastToken    = 100_000_000_000_000
	leastInstant  = 100_000_000_000
	leastDuration = 1000
)

// runID matches the run ID of a server.
var runID = regexp.MustCompile(`^[0-9a-f]{40}$`)

// line replaces every number of a line.
func (s *symbols) line(line string, now int64) string {
	words := strings.Split(line, " ")
	for i, word := range words {
		if runID.MatchString(word) {
			words[i] = "RUN"
			continue
		}
		if till, place, ok := strings.Cut(word, ":"); ok && strings.IndexAny(till, "~?") == 0 {
			n, _ := strconv.ParseInt(till[1:], 10, 64)
			words[i] = till[:1] + s.show(n, now) + ":" + place
			continue
		}
		if n, err := strconv.ParseInt(word, 10, 64); err == nil {
			words[i] = unsure(word) + s.show(n, now)
		}
	}
	// An exclusive holder's time of grant is its token's, which does not move
	// when a driver makes a record older.
	was := strings.Split(line, " ")
	switch {
	case len(was) > 6 && was[0] == "holder" && was[1] == "x":
		words[6] = sinceToken(was[6], words[6], was[5], words[5])
	case len(was) > 2 && was[0] == "leader":
		words[2] = sinceToken(was[2], words[2], was[1], words[1])
	}
	return strings.Join(words, " ")
}

// lock replaces the numbers of the field lock. Its lease counts from the token before it, and
// is shown as the time at which it ends.
func (s *symbols) lock(value string, now int64) string {
	words := strings.Split(value, " ")
	if len(words) < 3 || words[2] == "-" {
		return s.line(value, now)
	}
	token, _ := strconv.ParseInt(words[0], 10, 64)
	lease, _ := strconv.ParseInt(words[1], 10, 64)
	mark := strings.Repeat("0", len(unsure(strings.TrimPrefix(words[1], "-"))))
	words[1] = mark + strconv.FormatInt(token/1000+lease, 10)
	// +1 is a mark and no number.
	return strings.Replace(s.line(strings.Join(words, " "), now), " "+words[2]+" 1 ", " "+words[2]+" +1 ", 1)
}

// unsure returns ~ for each 0 in front of a number: one for the lease of an unconfirmed push, two for that of a
// hold that is to end.
func unsure(word string) string {
	digits := strings.TrimLeft(word[:max(len(word)-1, 0)], "0")
	return strings.Repeat("~", max(len(word)-1, 0)-len(digits))
}

// sinceToken shows a time of grant as its token, if it is the time of the token.
func sinceToken(since, shown, token, symbol string) string {
	if len(token) > 3 && since == token[:len(token)-3] {
		return "at" + symbol
	}
	return shown
}

func (s *symbols) show(n, now int64) string {
	switch {
	case n >= leastToken:
		return s.name(n)
	case n >= leastInstant:
		return instant(n - now)
	case n >= leastDuration:
		return s.duration(n)
	}
	return strconv.FormatInt(n, 10)
}

// adjacent is how far apart tokens of one step can be. They are consecutive; those of two
// steps are further apart, because a request lies between them.
const adjacent = 8

func (s *symbols) name(token int64) string {
	for i, known := range s.tokens {
		switch d := token - known; {
		case d == 0:
			return fmt.Sprintf("T%d", i+1)
		case 0 < d && d < adjacent:
			return fmt.Sprintf("T%d+%d", i+1, d)
		}
	}
	s.tokens = append(s.tokens, token)
	return fmt.Sprintf("T%d", len(s.tokens))
}

// token returns the number of a symbol.
func (s *symbols) token(symbol string) (string, error) {
	name, plus, _ := strings.Cut(strings.TrimPrefix(symbol, "T"), "+")
	i, err := strconv.Atoi(name)
	if err != nil || i < 1 || i > len(s.tokens) {
		return "", fmt.Errorf("no token %s has been seen", symbol)
	}
	n := s.tokens[i-1]
	if plus != "" {
		d, err := strconv.Atoi(plus)
		if err != nil {
			return "", err
		}
		n += int64(d)
	}
	return strconv.FormatInt(n, 10), nil
}

// move moves the tokens as far as the driver has moved them.
func (s *symbols) move(by int64) {
	for i := range s.tokens {
		s.tokens[i] += by
	}
}

func instant(ms int64) string {
	switch s := seconds(ms); {
	case s > 0:
		return fmt.Sprintf("now+%ds", s)
	case s < 0:
		return fmt.Sprintf("now%ds", s)
	}
	return "now"
}

func (s *symbols) duration(ms int64) string {
	switch {
	case ms < 0:
		return "none"
	case ms == 0:
		return "0"
	}
	return fmt.Sprintf("%ds", seconds(ms))
}

// seconds rounds up. So a value from which some milliseconds have passed shows what it was set
// to.
func seconds(ms int64) int64 {
	s := ms / 1000
	if ms%1000 > 0 {
		s++
	}
	return s
}

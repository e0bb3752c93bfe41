package memstore

import (
	"strconv"
	"strings"
)

// arguments reads the ARGV of a script from the front. A missing or malformed argument
// reads as empty or zero. problem reports the first one, so that a script's twin can read
// all of them and check once.
type arguments struct {
	words []string
	read  int
	wrong string
}

func (a *arguments) blame(what string) {
	if a.wrong == "" {
		a.wrong = "argument " + strconv.Itoa(a.read) + " " + what
	}
}

// text reads one argument.
func (a *arguments) text() string {
	a.read++
	if a.read > len(a.words) {
		a.blame("is missing")
		return ""
	}
	return a.words[a.read-1]
}

// left reports whether there are more arguments.
func (a *arguments) left() bool { return a.read < len(a.words) }

// each reads one argument for each of n keys.
func (a *arguments) each(n int) []string {
	list := make([]string, n)
	for i := range list {
		list[i] = a.text()
	}
	return list
}

// whole reads one argument that is a whole number.
func (a *arguments) whole() int64 {
	n, err := strconv.ParseInt(a.text(), 10, 64)
	if err != nil || n < 0 {
		a.blame("is not a whole number")
		return 0
	}
	return n
}

// lease reads a lease to renew: <attempt> [<ttl> [<owner>]].
func (a *arguments) lease(common int64) request {
	words := strings.Split(a.text(), " ")
	r := request{attempt: words[0], ttl: common}
	if len(words) > 1 && words[1] != "" {
		ttl, err := strconv.ParseInt(words[1], 10, 64)
		if err != nil || ttl < 0 {
			a.blame("has no whole number as its TTL")
		}
		r.ttl = ttl
	}
	if len(words) > 2 {
		r.owner = words[2]
	}
	if len(words) > 3 {
		a.blame("has too many words")
	}
	return r
}

// owner reads the last argument, which may be left out.
func (a *arguments) owner() string {
	if a.read == len(a.words) {
		return ""
	}
	name := a.text()
	if name == "" {
		a.blame("is an owner without a name")
	}
	return name
}

// want reads what an acquisition asks for: x, s or p:<weight>:<limit>.
func (a *arguments) want() (m mode, weight, limit int64, follow bool) {
	word := a.text()
	if word == "x" || word == "s" {
		return mode(word), 1, 0, false
	}
	match := permits.FindStringSubmatch(word)
	if match == nil {
		a.blame("is not a mode")
		return exclusive, 1, 0, false
	}
	weight, _ = strconv.ParseInt(match[1], 10, 64)
	limit, _ = strconv.ParseInt(match[2], 10, 64)
	if weight == 0 {
		a.blame("asks for no permit")
	}
	return permit, weight, limit, match[3] != ""
}

// problem returns the first error in the arguments of a script, nil if there is none.
func (a *arguments) problem(action string) error {
	if a.wrong == "" && a.read < len(a.words) {
		a.wrong = "too many arguments"
	}
	if a.wrong == "" {
		return nil
	}
	return refuse("ERR", action+": "+a.wrong)
}

package neighbour

import (
	"strconv"
	"strings"
	"time"
)

// arguments reads the arguments of an action from the front. The first bad one is kept in
// wrong; what is read after it is zero.
type arguments struct {
	action string
	words  []string
	wrong  string
}

func (a *arguments) blame(what string) {
	if a.wrong == "" {
		a.wrong = what
	}
}

func (a *arguments) text() string {
	if len(a.words) == 0 {
		a.blame("too few arguments")
		return ""
	}
	word := a.words[0]
	a.words = a.words[1:]
	return word
}

func (a *arguments) numberIn(word string) uint64 {
	n, err := strconv.ParseUint(word, 10, 63)
	if err != nil {
		a.blame("an argument is not a whole number")
	}
	return n
}

// maxMillis is a hundred years, the longest time of the protocol.
const maxMillis = 100 * 365 * 24 * uint64(time.Hour/time.Millisecond)

func (a *arguments) millis() time.Duration { return a.millisIn(a.text()) }

func (a *arguments) millisIn(word string) time.Duration {
	n := a.numberIn(word)
	if n > maxMillis {
		a.blame("a time is too long")
		return 0
	}
	return time.Duration(n) * time.Millisecond
}

// mode reads x, s or p:<weight>:<limit>.
func (a *arguments) mode(to *Attempt) {
	switch word := a.text(); word {
	case "x":
		to.Mode, to.Count = Exclusive, 1
	case "s":
		to.Mode, to.Count = Shared, 1
	default:
		parts := strings.Split(word, ":")
		if len(parts) != 3 || parts[0] != "p" {
			a.blame("the mode has no such form")
			return
		}
		var bad, wrong error
		to.Mode = Permits
		to.Count, bad = strconv.Atoi(parts[1])
		to.Limit, wrong = strconv.Atoi(strings.TrimSuffix(parts[2], "+")) // a neighbour keeps no limit to take
		if bad != nil || wrong != nil || to.Count < 1 || to.Limit < 0 {
			a.blame("the mode has no such form")
		}
	}
}

// owner reads the last argument, which may be left out.
func (a *arguments) owner() string {
	if len(a.words) == 0 {
		return ""
	}
	return a.text()
}

// skipRecord reads the last arguments of most actions. They are about the library's own record,
// which a lock on this wire does not have: how long it outlives its last lease, where its pushes
// go, and maybe its owner.
func (a *arguments) skipRecord() {
	a.millis()
	a.text()
	a.owner()
}

// ok reports whether all arguments were good, and none is left.
func (a *arguments) ok() bool {
	if len(a.words) > 0 {
		a.blame("too many arguments")
	}
	return a.wrong == ""
}

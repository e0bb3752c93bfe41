// Package top is the model of holdfast top: which locks it shows, what a key does, and what
// the screen looks like. It is pure: values in, text out. The terminal, the clock and the
// server are in package look.
package top

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Lock is one lock as the server has shown it. Its texts are safe for a terminal.
type Lock struct {
	Job     bool // a lock and a job may have the same name
	Name    string
	Kind    string
	Holder  string
	Token   string
	Value   string
	Age     time.Duration // of the oldest hold
	Left    time.Duration // until the lease expires if it is not renewed
	Held    bool
	Waiting int
	Detail  []string // lines of the detail pane

	Deadlock bool // it is part of one
}

// id tells a job from a lock of its name. No text for a terminal has a NUL.
func (l Lock) id() string {
	if l.Job {
		return l.Name + "\x00"
	}
	return l.Name
}

// waiting is the number of the waiters, and whether they are in a deadlock.
func (l Lock) waiting() string {
	if l.Deadlock {
		return strconv.Itoa(l.Waiting) + " deadlock"
	}
	return strconv.Itoa(l.Waiting)
}

// samples is how many states of a lock the trend shows.
const samples = 16

// past is what is remembered of a lock from one state to the next.
type past struct {
	token   string
	whole   time.Duration // the longest lease seen under this token: about its TTL
	waiting []int         // the last states, oldest first
}

// Sorts are the orders of the rows. The key s goes through them.
var Sorts = []string{"name", "waiting", "lease", "age"}

var compare = map[string]func(a, b Lock) int{
	"name":    func(a, b Lock) int { return strings.Compare(a.id(), b.id()) },
	"waiting": func(a, b Lock) int { return cmp.Compare(b.Waiting, a.Waiting) },
	"lease":   func(a, b Lock) int { return cmp.Compare(left(a), left(b)) },
	"age":     func(a, b Lock) int { return cmp.Compare(b.Age, a.Age) },
}

// left sorts what is not held behind all that is.
func left(l Lock) time.Duration {
	if !l.Held {
		return 1<<63 - 1
	}
	return l.Left
}

// Model is all that the screen shows. Its methods return a new one.
type Model struct {
	server string
	sort   string

	width, height int // 0: as large as needed

	locks   []Lock // all, in the order of their names
	past    map[string]past
	at      time.Time // of the last state; zero: there is none yet
	failure string    // why there is none since

	reverse bool
	paused  bool
	detail  bool
	typing  bool // the keys are for the filter
	filter  string
	chosen  string // the ID of the selected lock
	first   int    // the row at the top of the screen
}

// New is the model before the first state of the server.
func New(server, sort string) Model {
	return Model{server: server, sort: sort, past: map[string]past{}}
}

// Resize sets the size of the screen.
func (m Model) Resize(width, height int) Model {
	m.width, m.height = width, height
	return m.follow()
}

// State takes in the state of all locks. While the model is paused, nothing changes.
func (m Model) State(at time.Time, locks []Lock) Model {
	m.failure = ""
	if m.paused {
		return m
	}
	m.at, m.locks = at, slices.Clone(locks)
	slices.SortStableFunc(m.locks, compare["name"])
	known := make(map[string]past, len(locks))
	for _, l := range m.locks {
		p := m.past[l.id()]
		if p.token != l.Token {
			p.token, p.whole = l.Token, 0
		}
		p.whole = max(p.whole, l.Left)
		p.waiting = append(slices.Clone(p.waiting[max(len(p.waiting)-samples+1, 0):]), l.Waiting)
		known[l.id()] = p
	}
	m.past = known
	return m.follow()
}

// Failed takes in that the server could not be read. The last state stays.
func (m Model) Failed(why string) Model {
	m.failure = why
	return m
}

// visible are the locks that the filter selects, in the order of the screen.
func (m Model) visible() []Lock {
	var list []Lock
	wanted := strings.ToLower(m.filter)
	for _, l := range m.locks {
		if strings.Contains(strings.ToLower(l.Name+"\n"+l.Holder), wanted) ||
			l.Deadlock && strings.Contains("deadlock", wanted) { //nolint:gocritic // the filter may be a part of it
			list = append(list, l)
		}
	}
	slices.SortStableFunc(list, compare[m.sort])
	if m.reverse {
		slices.Reverse(list)
	}
	return list
}

// index is the row of the selected lock, or 0.
func (m Model) index(list []Lock) int {
	return max(slices.IndexFunc(list, func(l Lock) bool { return l.id() == m.chosen }), 0)
}

// follow keeps a lock selected, and its row on the screen.
func (m Model) follow() Model {
	list := m.visible()
	if len(list) == 0 {
		m.first = 0
		return m
	}
	at := m.index(list)
	if m.chosen == "" || list[at].id() != m.chosen {
		// The lock has gone. Its row, and not the first one, keeps the eye.
		at = min(m.first, len(list)-1)
		m.chosen = list[at].id()
	}
	if rows := m.rows(list); rows > 0 {
		m.first = min(max(m.first, at-rows+1, 0), at, max(len(list)-rows, 0))
	}
	return m
}

// Key does what a key is for, and says whether it ends the program. Keys are single
// characters, or up, down, pgup, pgdn, home, end, enter, esc, backspace, ctrl-c.
func (m Model) Key(key string) (next Model, quit bool) {
	if key == "ctrl-c" {
		return m, true
	}
	if m.typing {
		return m.typed(key).follow(), false
	}
	switch key {
	case "q":
		return m, true
	case "/":
		m.typing = true
	case "s":
		m.sort = Sorts[(slices.Index(Sorts, m.sort)+1)%len(Sorts)]
	case "r":
		m.reverse = !m.reverse
	case "p":
		m.paused = !m.paused
	case "enter":
		m.detail = !m.detail
	case "esc":
		if m.detail {
			m.detail = false
		} else {
			m.filter = ""
		}
	default:
		m = m.moved(key)
	}
	return m.follow(), false
}

// typed changes the filter.
func (m Model) typed(key string) Model {
	switch key {
	case "enter":
		m.typing = false
	case "esc":
		m.typing, m.filter = false, ""
	case "backspace":
		text := []rune(m.filter)
		m.filter = string(text[:max(len(text)-1, 0)])
	default:
		if len([]rune(key)) == 1 {
			m.filter += key
		}
	}
	return m
}

// moved selects another row.
func (m Model) moved(key string) Model {
	list := m.visible()
	if len(list) == 0 {
		return m
	}
	at, page := m.index(list), max(m.rows(list), 1)
	switch key {
	case "up", "k":
		at--
	case "down", "j":
		at++
	case "pgup":
		at -= page
	case "pgdn", " ":
		at += page
	case "home", "g":
		at = 0
	case "end", "G":
		at = len(list) - 1
	}
	m.chosen = list[min(max(at, 0), len(list)-1)].id()
	return m
}

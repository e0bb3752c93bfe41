package lineage_test

import (
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/verify/internal/harness"
)

// scene is a lock as it is commonly written, run by clients that take turns in a given
// order. Each command goes to a real server. What was sent and answered is recorded. The
// test judges the record, and the picture of the page is drawn from it.
type scene struct {
	picture string // docs/images/lineage-PICTURE.svg
	flaw    string // the last line of the picture
	keys    []string
	clients []actor
	// turns is the order. A name lets that client send its next command and run on to the
	// one after it; A*1000 does that a thousand times. A duration lets time pass. "cut A"
	// breaks the next request of A, and "kill A" ends A.
	turns string
}

// actor is one client of a scene.
type actor struct {
	name  string
	run   func(c *player)
	ahead int    // by how many seconds its clock is ahead
	user  string // of the server, with the password pw; default: the default user
}

// player is what the code of a lock sees.
type player struct {
	name string
	play *play

	rdb   *redis.Client
	proxy *redistest.Proxy
	ahead int
	wake  time.Duration // it sleeps until then
	cut   bool          // its next request meets a broken network

	command []any // what its next turn sends
	shown   string
	reply   any
	run     func() (struct{}, bool) // runs its code to its next command
	yield   func(struct{}) bool     // ends its turn
	stop    func()

	inside string   // in which role it is in its critical section
	did    []string // since its last command
}

// play is a running scene, and its record.
type play struct {
	scene

	t      *testing.T
	s      *redistest.Server
	passed time.Duration // since the scene began
	by     map[string]*player
	rows   []row
}

// row is one line of the record.
type row struct {
	who    string // empty: time
	text   string
	inside map[string]string // client to role, after this row
	exists map[string]bool   // key, after this row
}

// What a server answers to a question of yes or no.
const (
	yes = int64(1)
	no  = int64(0)
)

// begin is the clocks' time in seconds when a scene begins.
const begin = 100

// do sends a command in the client's next turn. An answer is nil, a string, an int64 or
// an error.
func (c *player) do(args ...any) any {
	return c.send(strings.TrimSuffix(fmt.Sprintln(args...), "\n"), args)
}

// eval runs a script. The picture shows its name.
func (c *player) eval(name, text string, keys []string, args ...any) any {
	command := []any{"EVAL", text, len(keys)}
	for _, key := range keys {
		command = append(command, key)
	}
	return c.send("script: "+name, append(command, args...))
}

func (c *player) send(shown string, command []any) any {
	c.shown, c.command = shown, command
	if !c.yield(struct{}{}) {
		panic(c) // it was killed: its code runs no further
	}
	return c.reply
}

// enter begins the critical section, as far as this client knows.
func (c *player) enter(role string) { c.inside, c.did = role, append(c.did, role) }

// leave ends it.
func (c *player) leave() { c.inside, c.did = "", append(c.did, "leaves") }

// work is one step of what the lock is for.
func (c *player) work() { c.send("works", []any{"PING"}) }

func (c *player) sleep(d time.Duration) {
	c.wake, c.did = c.play.passed+d, append(c.did, "sleeps "+short(d))
}

// now is the time on the clock of the client's machine, in seconds.
func (c *player) now() int64 { return int64(begin + c.ahead + int(c.play.passed/time.Second)) }

// number is an answer as a number; 0 if there is none.
func number(reply any) int64 {
	text, _ := reply.(string)
	n, _ := strconv.ParseInt(text, 10, 64)
	return n
}

// perform runs a scene to its end, and compares its picture with the file.
func perform(t *testing.T, s *redistest.Server, sc scene) *play {
	t.Helper()
	if len(sc.keys) == 0 {
		sc.keys = []string{lockName}
	}
	p := &play{scene: sc, t: t, s: s, by: map[string]*player{}}
	for _, a := range sc.clients {
		p.by[a.name] = p.admit(a)
	}
	for turn := range strings.FieldsSeq(strings.NewReplacer("cut ", "cut:", "kill ", "kill:").Replace(sc.turns)) {
		name, times, _ := strings.Cut(turn, "*")
		fault, who, _ := strings.Cut(turn, ":")
		switch {
		case p.by[name] != nil:
			p.turn(p.by[name], max(1, int(number(times))))
		case fault == "cut":
			p.by[who].cut = true
		case fault == "kill":
			p.by[who].stop()
			p.by[who].inside = ""
			p.record(who, "is killed")
		default:
			p.pass(turn)
		}
	}
	compare(p)
	return p
}

// admit makes a client. Its code begins with its first turn.
func (p *play) admit(a actor) *player {
	c := &player{name: a.name, play: p, proxy: redistest.NewProxy(p.t, p.s.Addr()), ahead: a.ahead}
	options := plain(c.proxy.Addr())
	if a.user != "" {
		options.Username, options.Password = a.user, "pw"
	}
	c.rdb = redis.NewClient(options)
	p.t.Cleanup(func() { c.rdb.Close() })
	c.run, c.stop = iter.Pull(func(yield func(struct{}) bool) {
		defer func() {
			if r := recover(); r != nil && r != any(c) {
				panic(r)
			}
		}()
		c.yield = yield
		a.run(c)
	})
	p.t.Cleanup(c.stop)
	return c
}

// turn sends the client's next command so many times, and runs its code on to the one
// after it.
func (p *play) turn(c *player, times int) {
	p.t.Helper()
	assert.MustTrue(p.t, p.passed >= c.wake, "it is not %s's turn: it sleeps", c.name)
	for n := 1; n <= times; n++ {
		if c.command == nil { // its first turn
			c.run()
		}
		assert.MustTrue(p.t, c.command != nil, "it is not %s's turn: its code has ended", c.name)
		c.did = nil
		text := c.shown
		c.reply = p.answer(c)
		c.command = nil
		c.run()
		if n < times {
			continue
		}
		if text != "works" {
			text += " → " + said(c.reply)
		}
		if times > 1 {
			text += fmt.Sprintf(", %d times", times)
		}
		p.record(c.name, strings.Join(append([]string{text}, c.did...), ", "))
	}
}

// answer sends the client's command to the server.
func (p *play) answer(c *player) any {
	if c.cut {
		c.cut = false
		c.proxy.RefuseNew(true)
		defer c.proxy.RefuseNew(false)
		c.proxy.Cut()
	}
	reply, err := c.rdb.Do(harness.Within(p.t), c.command...).Result()
	if errors.Is(err, redis.Nil) {
		return nil
	} else if err != nil {
		return err
	}
	return reply
}

// said is an answer as the picture shows it. Servers word their errors differently.
func said(reply any) string {
	refused := redis.Error(nil)
	switch err, isError := reply.(error); {
	case reply == nil:
		return "nil"
	case !isError:
		return fmt.Sprint(reply)
	case !errors.As(err, &refused):
		return "connection lost"
	case strings.Contains(err.Error(), "ACL failure"), strings.Contains(err.Error(), "can't run this command"):
		return "NOPERM"
	default:
		code, _, _ := strings.Cut(err.Error(), " ")
		return code
	}
}

// short is a duration without what is zero: 24h, and not 24h0m0s.
func short(d time.Duration) string {
	text := strings.TrimSuffix(d.String(), "m0s")
	if len(text) < len(d.String()) {
		text = strings.TrimSuffix(text+"m", "h0m")
		if !strings.HasSuffix(text, "m") {
			text += "h"
		}
	}
	return text
}

// pass lets time pass: the server's keys get so much older. A key whose time has come
// ends as it would by itself, by an end in the past.
func (p *play) pass(duration string) {
	p.t.Helper()
	d, err := time.ParseDuration(duration)
	assert.MustTrue(p.t, err == nil, "%q is no turn", duration)
	p.passed += d
	text := short(d) + " later"
	keys, _ := p.s.Do(p.t, "KEYS", "*").([]any)
	for _, key := range slices.SortedFunc(slices.Values(keys), func(a, b any) int {
		return strings.Compare(a.(string), b.(string))
	}) {
		left, _ := p.s.Do(p.t, "PTTL", key).(int64)
		switch rest := left - d.Milliseconds(); {
		case left < 0: // it has no end
		case rest <= 0:
			p.s.Do(p.t, "PEXPIREAT", key, 1)
			text += fmt.Sprintf(": %s expires", key)
		default:
			p.s.Do(p.t, "PEXPIRE", key, rest)
		}
	}
	p.record("", text)
}

// record adds a row, with the state after it.
func (p *play) record(who, text string) {
	r := row{who: who, text: text, inside: map[string]string{}, exists: map[string]bool{}}
	for name, c := range p.by {
		if c.inside != "" {
			r.inside[name] = c.inside
		}
	}
	for _, key := range p.keys {
		r.exists[key] = p.s.Do(p.t, "EXISTS", key) == yes
	}
	p.rows = append(p.rows, r)
}

// together fails the test unless at the end exactly these clients are in their critical
// sections, each as far as it knows.
func (p *play) together(names ...string) {
	p.t.Helper()
	last := p.rows[len(p.rows)-1].inside
	if got := slices.Sorted(maps.Keys(last)); !slices.Equal(got, names) {
		p.t.Errorf("%v are in their critical sections, and not %v: the flaw is not seen", got, names)
	}
}

// clash reports whether a row has clients in their critical sections that exclude each
// other. Only readers do not.
func (r row) clash() bool {
	roles := slices.Collect(maps.Values(r.inside))
	return len(roles) > 1 && slices.ContainsFunc(roles, func(role string) bool { return role != "reads" })
}

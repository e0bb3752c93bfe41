package transcript

import (
	"fmt"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/script"
)

// RunTwice is Run with a driver that sends each repeatable script twice and answers what the
// second copy was answered. So the answers, the pushes and the records must be those of one copy.
func RunTwice(t *testing.T, dir string, open func(t *testing.T) Driver) {
	Run(t, dir, func(t *testing.T) Driver { return &twice{Driver: open(t), t: t} })
}

// twice sends repeatable scripts twice.
type twice struct {
	Driver
	t      *testing.T
	pushes []Push
}

func (d *twice) Run(action *script.Script, keys, args []string) (string, error) {
	answer, err := d.Driver.Run(action, keys, args)
	if !repeatable(action, args) {
		return answer, err
	}
	d.pushes = append(d.pushes, d.Driver.Pushes()...)
	second, err := d.Driver.Run(action, keys, args)
	switch {
	case action == script.Cancel && second == "none":
		// The client goes on to cancel, as after a cancel that came too early.
	case action == script.ReleaseIdle && strings.Trim(second, "-") == "released ":
		// The client sends a release for each, whose answer counts.
	case action == script.Resume && cutLeft(second) == cutLeft(answer):
		// The client waits until the new lease would be over, instead of the former one.
	default:
		answer = second
	}
	for _, push := range d.Driver.Pushes() {
		word, _, _ := strings.Cut(push.Payload, " ")
		if word == "granted" || word == "evicted" || word == "free" {
			d.t.Errorf("the second copy of %s has pushed %q", action.Name, push.Payload)
		}
	}
	return answer, err
}

// cutLeft removes the remaining time from an answer of resume.
func cutLeft(answer string) string {
	words := strings.Split(answer, " ")
	if len(words) > 3 {
		words[3] = ""
	}
	return strings.Join(words, " ")
}

// repeatable reports whether a store may repeat the request. No client of this version sends an
// eviction without its ID.
func repeatable(action *script.Script, args []string) bool {
	return action.Repeats && (action != script.Evict || len(args) > 5)
}

func (d *twice) Pushes() []Push {
	pushes := slices.Concat(d.pushes, d.Driver.Pushes())
	d.pushes = nil
	return pushes
}

// RunLate sends a second copy of every request of the transcripts in dir at the end of its
// scenario: as it is then, with a newer holder, and when all leases have expired and there is a
// newer holder. A repeatable script must change nothing that matters to another client. For each
// of the others there must be a scenario in which it does, because nothing else is a reason not to
// repeat it.
func RunLate(t *testing.T, dir string, open func(t *testing.T) Driver) {
	files, err := filepath.Glob(filepath.Join(dir, "*.txt"))
	assert.MustTrue(t, err == nil && len(files) != 0, "no transcripts in %s (%v)", dir, err)
	sent, harmful := make(map[string]int), make(map[string]int)
	for _, file := range files {
		for _, s := range read(t, file) {
			if slices.ContainsFunc(s.lines, func(line string) bool { return strings.HasPrefix(line, "plant ") }) {
				continue // every script refuses such a record
			}
			d := &late{Driver: open(t), keys: make(map[string]bool)}
			newPlayer(d).play(t, s)
			for _, prepare := range []func(){func() {}, d.newHolder, d.newHolderAfterExpiry} {
				prepare()
				for _, c := range d.calls {
					if !repeatable(c.action, c.args) {
						continue
					}
					sent[c.action.Name]++
					if before, after := d.again(c); !reflect.DeepEqual(before, after) {
						t.Errorf("%s: %s: a late copy of %s %v changed\n%v to\n%v",
							filepath.Base(file), s.title, c.action.Name, c.args, before, after)
					}
				}
			}
			unknown := func(c call) bool { return !c.action.Repeats && harmful[c.action.Name] == 0 }
			if !slices.ContainsFunc(d.calls, unknown) {
				continue // harm is known of each of them
			}
			d = &late{Driver: open(t), keys: make(map[string]bool)}
			newPlayer(d).play(t, s)
			for _, c := range d.calls {
				if before, after := d.again(c); !reflect.DeepEqual(before, after) {
					harmful[c.action.Name]++
					break // what follows is about the harm
				}
			}
		}
	}
	for _, action := range script.All() {
		assert.True(t, sent[action.Name] > 0 || !action.Repeats, "no transcript has a late copy of %s", action.Name)
		assert.True(t, harmful[action.Name] > 0 || action.Repeats,
			"%s is not repeatable, but no late copy of it does any harm", action.Name)
	}
}

// again sends a request once more, and returns the state before and after that.
func (d *late) again(c call) (before, after map[string]string) {
	d.settle()
	before = d.state()
	_, _ = d.Driver.Run(c.action, c.keys, c.args)
	return before, d.state()
}

// late notes what was sent.
type late struct {
	Driver
	calls []call
	keys  map[string]bool
}

type call struct {
	action     *script.Script
	keys, args []string
}

// Run implements [Driver]. No client uses an attempt again. So what was sent about an attempt before the
// scenario uses it again is not sent late.
func (d *late) Run(action *script.Script, keys, args []string) (string, error) {
	for _, key := range keys {
		d.keys[key] = true
	}
	switch action {
	case script.Acquire, script.AcquireAll, script.BeginRun, script.AcquireFree, script.Resume:
		d.calls = slices.DeleteFunc(d.calls, func(c call) bool {
			return len(args) > 0 && slices.Contains(c.args, args[0])
		})
	}
	d.calls = append(d.calls, call{action, keys, args})
	return d.Driver.Run(action, keys, args)
}

// settle does what the next request of anybody would do: it ends expired holds and serves the queue.
func (d *late) settle() {
	for key := range d.keys {
		if strings.HasSuffix(key, "}") || strings.HasSuffix(key, ":periodic") {
			for _, base := range []string{"golden:push:", "golden:push:{" + lockOf(key) + "}:"} {
				_, _ = d.Driver.Run(script.AwaitFree, []string{key}, []string{"x", "0", "1000", base})
			}
		}
	}
}

// lockOf is the name of the lock with the key.
func lockOf(key string) string {
	_, name, _ := strings.Cut(key, "{")
	name, _, _ = strings.Cut(name, "}")
	return name
}

func (d *late) newHolder() {
	for key := range d.keys {
		if strings.HasPrefix(key, clientKey) {
			continue // a client's own record is no lock
		}
		newer := []string{"newer/1", "30000", "630000", "x", "0", "newer:"}
		_, _ = d.Driver.Run(script.Acquire, []string{key}, newer)
	}
}

func (d *late) newHolderAfterExpiry() {
	d.Driver.Advance(100 * 1e9)
	d.newHolder()
}

// state is what matters to other clients: the holders, the waiters in their order, and what was decided.
func (d *late) state() map[string]string {
	state := make(map[string]string)
	for _, key := range slices.Sorted(maps.Keys(d.keys)) {
		for field, value := range d.Driver.Fields(key) {
			words := strings.Fields(value)
			switch {
			case field == "lock" && len(words) > 8: // the only waiter
				value = words[0] + " " + words[2]
				state[key+" #1"] = words[8]
			case field == "lock" && len(words) > 2:
				value = words[0] + " " + words[2]
			case field == "lock":
				value = words[0]
			case strings.HasPrefix(field, "h:") && len(words) > 3:
				value = fmt.Sprint(words[0], words[2:4])
			case strings.HasPrefix(field, "#"), field == "limit", field == "period", field == "leader",
				field == "entries", field == "mark":
			default:
				continue
			}
			state[key+" "+field] = value
		}
	}
	return state
}

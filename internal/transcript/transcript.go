// Package transcript plays the transcripts of the Lua scripts: commands with the
// answers that they must get. The same file is played on the specification
// (memstore) and on a server that runs the scripts, so that neither changes alone.
//
// A transcript is a text file of scenarios. A scenario begins with a comment, which
// names the rule that it shows, and with an empty store. It ends at the next comment
// after a blank line:
//
//	# A release grants the next waiter.
//	acquire c1/1
//	=> granted T1 0
//	listen c2
//	acquire c2/1 waiter_ttl=60s
//	=> queued 1 30s
//	release c1/1 token=T1
//	=> released
//	c2 <- granted c2/1 T2 0
//
// After a command comes its answer, with => before each line, and then the pushes. A
// command takes words and options (name=value). Options that are left out have the
// defaults of play.go. The commands are the scripts by their names, and
//
//	listen CLIENT       subscribe to the client's pushes
//	watch               subscribe to the changes of the lock's election
//	unsubscribe CLIENT  end that subscription, as a crash would
//	advance TIME        let time pass; a negative time sets the server's clock back
//	dump                show the record's fields
//	ttl                 show the TTL of the record
//	lock NAME           use another lock from here on; the first one is called a
//	sharded             use sharded pub/sub from here on
//	plant KIND          put something at the lock's key: string or later
//
// Values that differ from run to run are shown by symbols:
//
//   - Tokens are T1, T2, … in order of appearance. T1+1 is the number after T1; the
//     tokens that one step grants follow one another.
//   - Points in time are relative to the answer: now+30s. Times and durations are rounded
//     up to whole seconds. So the answers are the same on a server that needs some
//     milliseconds for a scenario.
//   - Numbers below 1000 are counts and shown as they are. So durations in transcripts
//     are 0 or at least 2s.
//   - The 0 in front of a provisional lease is shown as ~.
//   - A server's run ID is RUN.
package transcript

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/script"
)

var rewrite = flag.Bool("rewrite", false, "write the answers of the specification into the transcripts")

// Driver is one way to carry out the commands. A driver starts empty.
type Driver interface {
	// Run executes an action and returns its answer.
	Run(action *script.Script, keys, args []string) (string, error)
	Listen(channel string)
	Unsubscribe(channel string)
	// Pushes returns the pushes since the last call, in order.
	Pushes() []Push
	// Advance lets time pass for all records. It returns how far their tokens have
	// moved: 0, unless the driver cannot set a clock back.
	Advance(d time.Duration) (tokens int64)
	// Now is the server's time in ms.
	Now() int64
	// Fields returns the hash at key, or nil if there is none.
	Fields(key string) map[string]string
	// TTL returns the TTL of key in ms. It is negative if there is none.
	TTL(key string) int64
	// Plant puts a string at key, or the record of a later format.
	Plant(key string, later bool)
}

// Push is a message that a subscription got.
type Push struct{ Channel, Payload string }

// slow is how long a scenario may take. If it takes longer, times that are rounded to seconds
// may differ, and it is played again.
const slow = 900 * time.Millisecond

// Run plays every transcript in dir, each scenario on a driver of its own.
func Run(t *testing.T, dir string, open func(t *testing.T) Driver) {
	files, err := filepath.Glob(filepath.Join(dir, "*.txt"))
	assert.MustTrue(t, err == nil && len(files) != 0, "no transcripts in %s (%v)", dir, err)
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			runFile(t, file, open)
		})
	}
}

// Rewrite is Run. With -rewrite it writes the driver's answers into the files instead of
// comparing them.
func Rewrite(t *testing.T, dir string, open func(t *testing.T) Driver) {
	if !*rewrite {
		Run(t, dir, open)
		return
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.txt"))
	assert.MustTrue(t, err == nil && len(files) != 0, "no transcripts in %s (%v)", dir, err)
	for _, file := range files {
		var out []string
		for _, s := range read(t, file) {
			out = append(out, playScenario(t, s, open)...)
		}
		assert.Must(t, os.WriteFile(file, []byte(strings.Join(out, "\n")+"\n"), 0o644))
	}
}

// Walk takes every step of the transcripts in dir and compares no answers. It is for drivers
// that check each step themselves.
func Walk(t *testing.T, dir string, open func(t *testing.T) Driver) {
	files, err := filepath.Glob(filepath.Join(dir, "*.txt"))
	assert.MustTrue(t, err == nil && len(files) != 0, "no transcripts in %s (%v)", dir, err)
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			for _, s := range read(t, file) {
				t.Run(s.title, func(t *testing.T) { newPlayer(open(t)).play(t, s) })
			}
		})
	}
}

func runFile(t *testing.T, file string, open func(t *testing.T) Driver) {
	for _, s := range read(t, file) {
		t.Run(s.title, func(t *testing.T) {
			got := playScenario(t, s, open)
			for i := range max(len(got), len(s.lines)) {
				want, is := at(s.lines, i), at(got, i)
				if want != is {
					t.Fatalf("%s:%d\nwant %q\n got %q\nall of it:\n%s",
						filepath.Base(file), s.start+i, want, is, strings.Join(got, "\n"))
				}
			}
		})
	}
}

func playScenario(t *testing.T, s scenario, open func(t *testing.T) Driver) []string {
	t.Helper()
	for range 10 {
		start := time.Now()
		out := newPlayer(open(t)).play(t, s)
		if time.Since(start) < slow {
			return out
		}
	}
	t.Fatalf("%s: took longer than %v ten times", s.title, slow)
	return nil
}

func at(lines []string, i int) string {
	if i < len(lines) {
		return lines[i]
	}
	return "(the end)"
}

// scenario is a part of a transcript, with its comments and blank lines.
type scenario struct {
	title string
	start int // number of its first line in the file
	lines []string
}

func read(t *testing.T, file string) []scenario {
	t.Helper()
	text, err := os.ReadFile(file)
	assert.Must(t, err)
	var all []scenario
	blank := true
	for i, line := range strings.Split(strings.TrimSuffix(string(text), "\n"), "\n") {
		if blank && strings.HasPrefix(line, "# ") {
			title := strings.TrimPrefix(line, "# ")
			all = append(all, scenario{title: title, start: i + 1})
		}
		assert.MustTrue(t, len(all) != 0, "%s:%d: a transcript begins with a comment", file, i+1)
		blank = line == ""
		last := &all[len(all)-1]
		last.lines = append(last.lines, line)
	}
	return all
}

// isOutput reports whether a line is an answer or a push.
func isOutput(line string) bool {
	return strings.HasPrefix(line, "=>") || strings.Contains(line, " <- ")
}

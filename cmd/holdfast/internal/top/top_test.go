package top

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/assert"
)

var ascii = Look{Length: func(d time.Duration) string { return d.String() }}

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// three are a lock that is waited for, a lock that is young, and one that is free.
func three() []Lock {
	return []Lock{
		{
			Name: "nightly", Kind: "exclusive", Holder: "report@a:1", Token: "7",
			Age: time.Minute, Left: 8 * time.Second, Held: true, Waiting: 2,
			Detail: []string{"nightly is held", "  by       report@a:1", "  waiting  2"},
		},
		{
			Name: "conf", Kind: "shared", Holder: "reader@b:2 +1", Token: "9", Age: time.Second, Left: 2 * time.Second,
			Held: true, Detail: []string{"conf is held: shared"},
		},
		{Name: "queue", Kind: "free", Token: "-", Waiting: 1},
	}
}

func screen(m Model) string { return strings.Join(m.View(ascii), "\n") }

// press presses keys, none of which may end the program.
func press(t *testing.T, m Model, keys ...string) Model {
	t.Helper()
	for _, key := range keys {
		var quit bool
		m, quit = m.Key(key)
		assert.MustTrue(t, !quit, "the key %s ends the program", key)
	}
	return m
}

// names are the locks on the screen, in their order; the selected one has a mark.
func names(m Model) (list []string) {
	for _, line := range m.View(ascii) {
		for _, l := range m.locks {
			mark, rest := line[:min(2, len(line))], line[min(2, len(line)):]
			if strings.HasPrefix(rest, l.Name+" ") && (mark == "> " || mark == "  ") {
				list = append(list, strings.TrimSpace(mark)+l.Name)
			}
		}
	}
	return list
}

func wantNames(t *testing.T, what string, m Model, want ...string) {
	t.Helper()
	if got := names(m); !slices.Equal(got, want) {
		t.Errorf("%s: %q, want %q\n%s", what, got, want, screen(m))
	}
}

func TestOneScreen(t *testing.T) {
	m := New("redis://h:1", "name").Resize(0, 0).State(noon, three())
	const want = `redis://h:1  2 held, 3 waiting  12:00:00 UTC
NAME          KIND       HOLDER            AGE  LEASE            WAITING  TREND             VALUE                 TOKEN
conf          shared     reader@b:2 +1      1s  ########     2s        0                 _                            9
nightly       exclusive  report@a:1       1m0s  ########     8s        2                 -                            7
queue         free                           -  -                      1                 .                            -`
	got := screen(m)
	assert.True(t, got == want, "\n%s\nwant\n%s", got, want)
}

// A lock and a job may have the same name. Each has its own lease and trend, and can be selected.
func TestAJobIsNotTheLockOfItsName(t *testing.T) {
	m := New("redis://h:1", "name").Resize(80, 12)
	for range 2 {
		m = m.State(noon, []Lock{
			{Name: "a", Kind: "shared", Held: true, Left: 8 * time.Second, Waiting: 5},
			{Name: "a", Kind: "job", Job: true, Held: true, Left: time.Second},
			{Name: "b"},
		})
	}
	for i, row := range []string{"> a             shared", "> a             job", "> b"} {
		assert.Contains(t, screen(press(t, m, slices.Repeat([]string{"down"}, i)...)), row)
	}
	lock, job := m.past[m.locks[0].id()], m.past[m.locks[1].id()]
	assert.True(t, lock.whole == 8*time.Second && slices.Equal(lock.waiting, []int{5, 5}), "the lock: %+v", lock)
	assert.True(t, job.whole == time.Second && slices.Equal(job.waiting, []int{0, 0}), "the job: %+v", job)
}

// Who holds a lock is what top is asked for: the trend goes before a holder is cut.
func TestANarrowScreenHasTheHolderAndNoTrend(t *testing.T) {
	locks := three()
	locks[0].Holder = "report@worker-17.example.net:5297"
	m := New("redis://h:1", "name").State(noon, locks)
	whole := Columns(m.Resize(0, 0).View(ascii)[1]) + len("> ")
	assert.Contains(t, screen(m.Resize(whole, 20)), "TREND")
	for width := whole - 1; width >= 90; width-- {
		text := screen(m.Resize(width, 20))
		assert.True(t, !strings.Contains(text, "TREND"), "%d columns have a trend:\n%s", width, text)
	}
	assert.Contains(t, screen(m.Resize(whole-18, 20)), "report@worker-17.example.net:5297")
}

func TestNoLineIsWiderThanTheScreenAndNoneIsMissing(t *testing.T) {
	locks := three()
	locks[0].Name, locks[0].Value = strings.Repeat("long", 50), strings.Repeat("v", 300)
	locks[1].Name, locks[1].Detail = strings.Repeat("夜间🔒", 20), []string{strings.Repeat("発票", 100)}
	for width := 1; width < 200; width += 7 {
		for height := 4; height < 30; height += 5 {
			m := New("redis://h:1", "name").State(noon, locks).Resize(width, height)
			m = press(t, m, "enter")
			lines := m.View(ascii)
			assert.True(t, len(lines) == height, "%dx%d: %d lines", width, height, len(lines))
			for _, line := range lines {
				if Columns(line) > width {
					t.Errorf("%dx%d: %q has %d columns", width, height, line, Columns(line))
				}
			}
		}
	}
}

func TestColumns(t *testing.T) {
	for text, want := range map[string]int{
		"": 0, "nightly": 7, "é": 1, "e\u0301": 1, "夜间/发票": 9, "ﾊﾝｶｸ": 4, "ｗ": 2, "한글": 4, "🔒lock": 6, "שלום": 4,
		"█░▁↑…": 5, "⌛": 2, "日\u200d": 2, "𠀀": 2,
	} {
		assert.Equal(t, Columns(text), want, "%q", text)
	}
	assert.Equal(t, ascii.cut("夜间", 4), "夜间", "a text that fits")
	assert.Equal(t, ascii.cut("夜间", 3), "夜~", "a text that is cut")
	assert.Equal(t, ascii.cut("夜间", 2), "~", "half a character does not fit")
}

func TestTheBarIsWhatIsLeftOfTheLongestLeaseOfAToken(t *testing.T) {
	state := func(m Model, token string, left time.Duration) Model {
		return m.State(noon, []Lock{{Name: "a", Held: true, Token: token, Left: left}})
	}
	bar := func(m Model) string { return strings.Fields(m.View(ascii)[2])[2] }
	m := state(New("", "name"), "1", 8*time.Second)
	for _, step := range []struct {
		token string
		left  time.Duration
		want  string
	}{
		{"1", 5 * time.Second, "#####..."}, {"1", time.Millisecond, "#......."}, {"1", 8 * time.Second, "########"},
		{"1", 16 * time.Second, "########"}, {"1", 8 * time.Second, "####...."},
		{"2", 4 * time.Second, "########"}, // another hold: what the first one had is forgotten
		{"2", 0, "........"},
	} {
		m = state(m, step.token, step.left)
		assert.Equal(t, bar(m), step.want, "token %s, %v left", step.token, step.left)
	}
	colour := Look{Color: true, Unicode: true, Length: ascii.Length}
	for left, want := range map[time.Duration]string{
		8 * time.Second: green, 3 * time.Second: yellow, time.Second: red,
	} {
		_, style := colour.bar(left, 8*time.Second)
		assert.True(t, style == want, "%v of 8s has the style %s, want %s", left, style, want)
	}
}

func TestTheTrendIsTheLastWaiters(t *testing.T) {
	m := New("", "name")
	for n := range 20 {
		m = m.State(noon, []Lock{{Name: "a", Waiting: n}})
	}
	got := m.past["a"].waiting
	assert.True(t, len(got) == samples && got[0] == 4 && got[samples-1] == 19, "%v", got)
	assert.Equal(t, ascii.trend([]int{0, 1, 7, 3}), "_.#=", "few waiters")
	assert.Equal(t, ascii.trend([]int{0, 50, 100}), "_=#", "many waiters")
	m = m.State(noon, nil)
	assert.True(t, len(m.past) == 0, "a lock that has gone is remembered: %v", m.past)
}

func TestTheOrderOfTheRows(t *testing.T) {
	m := New("", "name").State(noon, three()).Resize(100, 20)
	wantNames(t, "by name", m, ">conf", "nightly", "queue")
	m = press(t, m, "s")
	wantNames(t, "by waiting", m, "nightly", "queue", ">conf")
	m = press(t, m, "s")
	wantNames(t, "by lease", m, ">conf", "nightly", "queue")
	m = press(t, m, "s")
	wantNames(t, "by age", m, "nightly", ">conf", "queue")
	m = press(t, m, "r")
	wantNames(t, "reversed", m, "queue", ">conf", "nightly")
	m = press(t, m, "s", "r")
	wantNames(t, "by name again", m, ">conf", "nightly", "queue")
}

func TestTheSelectionStaysWithItsLock(t *testing.T) {
	m := New("", "name").Resize(100, 20).State(noon, three())
	m = press(t, m, "down")
	wantNames(t, "down", m, "conf", ">nightly", "queue")
	m = m.State(noon, append(three(), Lock{Name: "alpha"}))
	wantNames(t, "another lock comes in before it", m, "alpha", "conf", ">nightly", "queue")
	m = press(t, m, "end", "down")
	wantNames(t, "the end is the end", m, "alpha", "conf", "nightly", ">queue")
	m = press(t, m, "home", "up")
	wantNames(t, "the beginning is the beginning", m, ">alpha", "conf", "nightly", "queue")
	m = m.State(noon, three())
	wantNames(t, "it has gone", m, ">conf", "nightly", "queue")
}

func TestTheSelectedRowIsOnTheScreen(t *testing.T) {
	var many []Lock
	for i := range 50 {
		many = append(many, Lock{Name: fmt.Sprintf("lock%02d", i)})
	}
	m := New("", "name").Resize(100, 8).State(noon, many) // five rows
	wantNames(t, "the first screen", m, ">lock00", "lock01", "lock02", "lock03", "lock04")
	m = press(t, m, "pgdn")
	wantNames(t, "a page down", m, "lock01", "lock02", "lock03", "lock04", ">lock05")
	m = press(t, m, "end")
	wantNames(t, "the end", m, "lock45", "lock46", "lock47", "lock48", ">lock49")
	m = press(t, m, "pgup")
	wantNames(t, "a page up", m, ">lock44", "lock45", "lock46", "lock47", "lock48")
	m = m.Resize(100, 5)
	wantNames(t, "a smaller screen", m, ">lock44", "lock45")
	m = m.State(noon, many[:1])
	wantNames(t, "one lock is left", m, ">lock00")
}

func TestTheFilter(t *testing.T) {
	m := New("", "name").Resize(120, 20).State(noon, three())
	m = press(t, m, "/", "R", "e", "p")
	wantNames(t, "by holder, while it is typed", m, ">nightly")
	if text := screen(m); !strings.HasSuffix(text, "/Rep_   enter keep   esc clear") {
		t.Errorf("the line for typing is missing:\n%s", text)
	}
	m = press(t, m, "q") // a letter
	assert.Contains(t, screen(m), `no name or holder has "Repq" in it`)
	m = press(t, m, "backspace", "enter")
	wantNames(t, "it is kept", m, ">nightly")
	m = m.State(noon, three())
	wantNames(t, "the next state", m, ">nightly")
	m = press(t, m, "esc")
	wantNames(t, "cleared", m, "conf", ">nightly", "queue")
	m = press(t, m, "/", "x", "esc")
	wantNames(t, "given up", m, "conf", ">nightly", "queue")
	_, quit := press(t, m, "/").Key("ctrl-c")
	assert.True(t, quit, "ctrl-c does not end the program while a filter is typed")
}

func TestTheDetailPane(t *testing.T) {
	m := New("", "name").Resize(100, 20).State(noon, three())
	m = press(t, m, "down", "enter")
	assert.Contains(t, screen(m), "\n\nnightly is held\n  by       report@a:1\n  waiting  2\n")
	m = press(t, m, "up")
	if text := screen(m); !strings.Contains(text, "conf is held: shared") || strings.Contains(text, "nightly is held") {
		t.Errorf("not the details of the selected lock:\n%s", text)
	}
	m = press(t, m, "esc")
	text := screen(m)
	assert.True(t, !strings.Contains(text, "is held:"), "the pane is still there:\n%s", text)
}

func TestAPauseKeepsTheScreen(t *testing.T) {
	m := New("", "name").Resize(100, 20).State(noon, three())
	m = press(t, m, "p").State(noon.Add(time.Hour), nil)
	wantNames(t, "paused", m, ">conf", "nightly", "queue")
	if text := screen(m); !strings.Contains(text, "PAUSED  ") || !strings.Contains(text, "p go on") {
		t.Errorf("nothing says that it is paused:\n%s", text)
	}
	m = press(t, m, "p").State(noon.Add(time.Hour), nil)
	if text := screen(m); !strings.Contains(text, "0 held, 0 waiting  13:00:00 UTC\n") ||
		!strings.Contains(text, "no lock is held, and none is waited for") {
		t.Errorf("after the pause:\n%s", text)
	}
}

func TestAServerThatIsAwayLeavesTheLastState(t *testing.T) {
	m := New("redis://h:1", "name").Resize(100, 20)
	assert.Contains(t, screen(m), "reading the locks")
	m = m.State(noon, three()).Failed("no server answers")
	assert.Contains(t, screen(m), "no server answers  redis://h:1  ")
	wantNames(t, "away", m, ">conf", "nightly", "queue")
	text := screen(m.State(noon, three()))
	assert.True(t, !strings.Contains(text, "no server answers"), "the server is back:\n%s", text)
}

func TestTheKeysThatEndTheProgram(t *testing.T) {
	for _, key := range []string{"q", "ctrl-c"} {
		_, quit := New("", "name").Key(key)
		assert.True(t, quit, "%s does not", key)
	}
}

func TestColoursStandForWhatTheTextSays(t *testing.T) {
	colour := Look{Color: true, Unicode: true, Length: ascii.Length}
	m := New("", "name").Resize(120, 20).State(noon, three())
	text := strings.Join(m.View(colour), "\n")
	for _, want := range []string{
		"\x1b[7mconf ", "\x1b[1mnightly\x1b[0m", "\x1b[32m████████     8s\x1b[0m", "▁", "↑↓ select",
	} {
		assert.Contains(t, text, want)
	}
	if strings.Contains(screen(m), "\x1b") {
		t.Errorf("colours without colour:\n%q", screen(m))
	}
}

// A lock that is part of a deadlock says so in its row and in the first line, and a filter finds it.
func TestADeadlockIsMarked(t *testing.T) {
	locks := three()
	assert.False(t, strings.Contains(screen(New("h", "name").State(noon, locks)), "deadlock"), "there is none")
	locks[0].Deadlock = true
	m := New("h", "name").Resize(100, 20).State(noon, locks)
	assert.Contains(t, screen(m), "2 held, 3 waiting, 1 in a deadlock")
	assert.Contains(t, screen(m), "2 deadlock")
	wantNames(t, "the filter", press(t, m, "/", "d", "e", "a", "d", "enter"), ">nightly")
	wantNames(t, "a number", press(t, m, "/", "2", "enter"), ">conf") // of its holder, and not the waiters of nightly
}

package main

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/assert"
)

// said reads events and returns the output and the failures.
func said(t *testing.T, d *digest, events ...event) (string, []string) {
	t.Helper()
	var in, out strings.Builder
	for _, e := range events {
		line, err := json.Marshal(e)
		assert.Must(t, err)
		in.Write(append(line, '\n'))
	}
	d.out = &out
	broken, crashed := d.read(strings.NewReader(in.String()))
	assert.True(t, len(crashed) == 0, "the race detector crashed in %q", crashed)
	return out.String(), broken
}

func TestAPackageThatPassedIsOneLine(t *testing.T) {
	got, broken := said(t, &digest{},
		event{Action: "start", Package: root},
		event{Action: "run", Package: root, Test: "TestA"},
		event{Action: "output", Package: root, Test: "TestA", Output: "=== RUN   TestA\n"},
		event{Action: "output", Package: root, Test: "TestA", Output: "    a_test.go:1: talk\n"},
		event{Action: "output", Package: root, Test: "TestA", Output: "--- PASS: TestA (0.10s)\n"},
		event{Action: "pass", Package: root, Test: "TestA", Elapsed: 0.1},
		event{Action: "output", Package: root, Output: "PASS\n"},
		event{Action: "output", Package: root, Output: "ok  \t" + root + "\t0.2s\n"},
		event{Action: "pass", Package: root, Elapsed: 0.2})
	want := "ok  \t" + root + "\t0.2s\n"
	assert.True(t, got == want && len(broken) == 0, "got %q and %q, want %q", got, broken, want)
}

func TestAPackageThatFailedTellsOfItsFailedTestsOnly(t *testing.T) {
	got, broken := said(t, &digest{},
		event{Action: "run", Package: root, Test: "TestA"},
		event{Action: "run", Package: root, Test: "TestA/good"},
		event{Action: "output", Package: root, Test: "TestA/good", Output: "    a_test.go:1: good talk\n"},
		event{Action: "run", Package: root, Test: "TestA/bad"},
		event{Action: "output", Package: root, Test: "TestA/bad", Output: "=== NAME  TestA/bad\n"},
		event{Action: "output", Package: root, Test: "TestA/bad", Output: "        a_test.go:2: got 1,"},
		event{Action: "output", Package: root, Test: "TestA/bad", Output: " want 2\n"},
		event{Action: "output", Package: root, Test: "TestA/bad", Output: "    --- FAIL: TestA/bad (0.00s)\n"},
		event{Action: "fail", Package: root, Test: "TestA/bad"},
		event{Action: "pass", Package: root, Test: "TestA/good"},
		event{Action: "output", Package: root, Test: "TestA", Output: "--- FAIL: TestA (0.00s)\n"},
		event{Action: "fail", Package: root, Test: "TestA"},
		event{Action: "output", Package: root, Output: "FAIL\n"},
		event{Action: "output", Package: root, Output: "FAIL\t" + root + "\t0.2s\n"},
		event{Action: "fail", Package: root})
	want := "--- FAIL: TestA (0.00s)\n    --- FAIL: TestA/bad (0.00s)\n        a_test.go:2: got 1, want 2\n" +
		"FAIL\n" + "FAIL\t" + root + "\t0.2s\n"
	assert.True(t, got == want && slices.Equal(broken, []string{root}),
		"got\n%s\nand %q, want\n%s", got, broken, want)
}

func TestWhatDidNotBuildOrEndIsToldAndFails(t *testing.T) {
	got, broken := said(t, &digest{},
		event{Action: "build-output", ImportPath: root, Output: "./a.go:1:1: no\n"},
		event{Action: "output", Package: root, Output: "FAIL\t" + root + " [build failed]\n"},
		event{Action: "fail", Package: root})
	want := "./a.go:1:1: no\nFAIL\t" + root + " [build failed]\n"
	assert.True(t, got == want && len(broken) == 1, "not built: got %q and %q, want %q", got, broken, want)
	got, broken = said(t, &digest{},
		event{Action: "run", Package: root, Test: "TestA"},
		event{Action: "output", Package: root, Test: "TestA", Output: "=== RUN   TestA\n"},
		event{Action: "output", Package: root, Test: "TestA", Output: "panic: at once\n"})
	want = "--- it did not end: TestA\npanic: at once\n"
	assert.True(t, got == want && len(broken) == 1, "not ended: got %q and %q, want %q", got, broken, want)
	var d digest
	var out strings.Builder
	d.out = &out
	d.read(strings.NewReader("no JSON\n"))
	assert.True(t, out.String() == "no JSON\n", "what is no event is printed as %q", out.String())
}

// A crash of the race detector is no failure of a test, but a failed test beside it is one. So
// is a nil pointer in Go code.
func TestACrashOfTheRaceDetectorIsToldApart(t *testing.T) {
	check := "ThreadSanitizer: CHECK failed: x.cpp:1 \"0 != 0\"\n"
	outside := "SIGSEGV: segmentation violation\nPC=0x41c629 m=0 sigcode=1 addr=0x0\n\n" +
		"goroutine 0 gp=0xabbe80 m=0 mp=0xabce80 [idle]:\n\ngoroutine 445 [running]:\n"
	inside := strings.Replace(outside, "[idle]:\n", "[idle]:\nruntime.x()\n", 1)
	ours := "panic: runtime error: invalid memory address\n[signal SIGSEGV: segmentation violation code=0x1]\n"
	for _, c := range []struct {
		end, text string
		broken    bool
	}{
		{"pass", check, false}, {"pass", outside, false},
		{"fail", check, true}, {"pass", ours, true}, {"pass", inside, true},
	} {
		var in, out strings.Builder
		encoder := json.NewEncoder(&in)
		events := []event{{Action: c.end, Package: root, Test: "TestA"}, {Action: "run", Package: root, Test: "TestB"}}
		for line := range strings.Lines(c.text) {
			events = append(events, event{Action: "output", Package: root, Test: "TestB", Output: line})
		}
		for _, e := range append(events, event{Action: "fail", Package: root}) {
			assert.Must(t, encoder.Encode(e))
		}
		d := &digest{out: &out}
		failed, crashed := d.read(strings.NewReader(in.String()))
		if len(failed) > 0 != c.broken || len(crashed) > 0 == c.broken || !strings.Contains(out.String(), "TestB") {
			t.Errorf("%s: failed %q, crashed %q, printed %q", c.text, failed, crashed, out.String())
		}
	}
}

func TestTheSlowestTestsArePrintedWithoutThoseAboveThem(t *testing.T) {
	var d digest
	said(t, &d,
		event{Action: "run", Package: root + "/line", Test: "TestA"},
		event{Action: "run", Package: root + "/line", Test: "TestA/x"},
		event{Action: "pass", Package: root + "/line", Test: "TestA/x", Elapsed: 2},
		event{Action: "pass", Package: root + "/line", Test: "TestA", Elapsed: 3},
		event{Action: "run", Package: root + "/line", Test: "TestB"},
		event{Action: "pass", Package: root + "/line", Test: "TestB", Elapsed: 1},
		event{Action: "run", Package: root + "/line", Test: "TestC"},
		event{Action: "pass", Package: root + "/line", Test: "TestC", Elapsed: 4},
		event{Action: "pass", Package: root + "/line"})
	var out strings.Builder
	d.out = &out
	d.slowest(2)
	want := "== the slowest 2 of 3 tests, and how long each took\n     4.0s  line TestC\n     2.0s  line TestA/x\n"
	assert.True(t, out.String() == want, "got\n%s\nwant\n%s", out.String(), want)
}

func TestPackagesArePartedByTheirGoroutinesAndBeginWithTheHeaviest(t *testing.T) {
	var all []pkg
	for _, name := range []string{
		"", "/internal/repocheck", "/internal/adapter", "/verify/sim", "/verify/rules", "/verify/topology",
		"/bench/etcd", "/observe/prom", "/verify/suite", "/bench/crew", "/store/goredis", "/verify/internal/harness",
	} {
		all = append(all, pkg{ImportPath: root + name})
	}
	raced, plain := split(all, func(p pkg) bool { return races(p.ImportPath) })
	for i := range raced {
		raced[i] = short(raced[i])
	}
	for i := range plain {
		plain[i] = short(plain[i])
	}
	assert.Equal(t, strings.Join(raced, " "), "verify/topology verify/rules . internal/adapter store/goredis",
		"with the race detector")
	const others = "verify/suite . internal/repocheck verify/sim observe/prom bench/crew " +
		"verify/internal/harness bench/etcd"
	got := strings.Join(plain, " ")
	assert.True(t, got == others, "without: %s", got)
}

func TestTheCommandLineIsModulesAndThenFlags(t *testing.T) {
	for _, c := range []struct{ args, modules, flags string }{
		{"", "", ""},
		{"a b", "a b", ""},
		{"a --", "a", ""},
		{"a -- -run X", "a", "-run X"},
		{"-- -run X", "", "-run X"},
	} {
		modules, flags := parts(strings.Fields(c.args))
		assert.True(t, strings.Join(modules, " ") == c.modules && strings.Join(flags, " ") == c.flags,
			"%q is taken for modules %q and flags %q", c.args, modules, flags)
	}
}

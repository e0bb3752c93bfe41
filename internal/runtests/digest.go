package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// event is a line of go test -json.
type event struct {
	Action     string  `json:"Action"`
	Package    string  `json:"Package"`
	Test       string  `json:"Test"`
	ImportPath string  `json:"ImportPath"` // of a package that did not build
	Output     string  `json:"Output"`
	Elapsed    float64 `json:"Elapsed"`
}

// digest turns the events of go test -json into the usual output of go test, and notes
// how long each test took.
type digest struct {
	mu    sync.Mutex // guards all; two lanes write
	out   io.Writer
	tests []timing
}

// timing is how long a test took.
type timing struct {
	name    string
	seconds float64
}

// read prints the events of one go test. It returns the packages that failed, and those in
// which no test failed but the race detector itself ended the process.
func (d *digest) read(r io.Reader) (broken, crashed []string) {
	packages := map[string]*account{}
	lines := bufio.NewReader(r)
	for {
		line, err := lines.ReadString('\n')
		var e event
		switch {
		case line == "":
		case json.Unmarshal([]byte(line), &e) != nil || e.Action == "":
			d.write(line) // output of go test itself
		case e.Action == "build-output":
			d.write(e.Output)
		case e.Package != "":
			a := packages[e.Package]
			if a == nil {
				a = &account{tests: map[string]*test{}}
				packages[e.Package] = a
			}
			if !a.note(e) {
				break
			}
			d.write(a.text(e.Action))
			d.remember(a.times(e.Package))
			switch {
			case e.Action == "fail" && a.crashed():
				crashed = append(crashed, e.Package)
			case e.Action == "fail":
				broken = append(broken, e.Package)
			}
			delete(packages, e.Package)
		}
		if err != nil {
			break
		}
	}
	for name, a := range packages { // go test ended before they did
		d.write(a.text("fail"))
		broken = append(broken, name)
	}
	return broken, crashed
}

// through prints the output of go test unchanged.
func (d *digest) through(r io.Reader) (broken, crashed []string) {
	lines := bufio.NewReader(r)
	for {
		line, err := lines.ReadString('\n')
		d.write(line)
		if err != nil {
			return nil, nil
		}
	}
}

func (d *digest) sayf(format string, args ...any) { d.write(fmt.Sprintf(format+"\n", args...)) }

func (d *digest) write(text string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	_, _ = io.WriteString(d.out, text)
}

func (d *digest) remember(times []timing) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.tests = append(d.tests, times...)
}

// slowest prints the n slowest tests.
func (d *digest) slowest(n int) {
	d.mu.Lock()
	slices.SortStableFunc(d.tests, func(a, b timing) int { return cmp.Compare(b.seconds, a.seconds) })
	top := d.tests[:min(n, len(d.tests))]
	d.mu.Unlock()
	if len(top) == 0 {
		return
	}
	d.sayf("== the slowest %d of %d tests, and how long each took", len(top), len(d.tests))
	for _, t := range top {
		d.sayf("%8.1fs  %s", t.seconds, t.name)
	}
}

// account is the output of a package so far.
type account struct {
	own   strings.Builder // output that belongs to no test
	tests map[string]*test
	order []*test // in the order of their start
}

type test struct {
	name    string
	output  strings.Builder
	end     string // pass, fail or skip, once it has ended
	seconds float64
	parent  bool // it has subtests
}

// note notes an event, and reports whether it is the package's last.
func (a *account) note(e event) (last bool) {
	if e.Test == "" {
		a.own.WriteString(e.Output)
		return e.Action == "pass" || e.Action == "fail" || e.Action == "skip"
	}
	t := a.tests[e.Test]
	if t == nil {
		t = &test{name: e.Test}
		a.tests[e.Test] = t
		a.order = append(a.order, t)
		if up := a.above(t); up != nil {
			up.parent = true
		}
	}
	switch e.Action {
	case "output":
		t.output.WriteString(e.Output)
	case "pass", "fail", "skip":
		t.end, t.seconds = e.Action, e.Elapsed
	}
	return false
}

// detectorCrash matches the output of a process that a defect of the race detector has ended:
// its own check, or a violation in code that is not Go's, where no goroutine runs. A race has
// another message, and so has a nil pointer in Go code.
var detectorCrash = regexp.MustCompile(
	`ThreadSanitizer: CHECK failed|SIGSEGV: segmentation violation\nPC=.*\n\ngoroutine 0 .*\[idle\]:\n\n`)

// crashed reports whether no test has failed and the race detector has ended the process.
func (a *account) crashed() bool {
	found := detectorCrash.MatchString(a.own.String())
	for _, t := range a.order {
		if t.end == "fail" {
			return false
		}
		found = found || detectorCrash.MatchString(t.output.String())
	}
	return found
}

// text is the output of go test for the package. If the package passed, it is its last
// line; if it failed, it is its failed tests and its other output.
func (a *account) text(end string) string {
	var b strings.Builder
	if end == "fail" {
		for _, t := range a.order {
			if a.above(t) == nil {
				a.print(&b, t)
			}
		}
	}
	for line := range strings.Lines(a.own.String()) {
		if end == "fail" && line != "PASS\n" || strings.HasPrefix(line, "ok  \t") || strings.HasPrefix(line, "?   \t") {
			b.WriteString(line)
		}
	}
	return b.String()
}

// print writes the result of a failed test, its output, and then the same for its
// subtests, as go test does without -v.
func (a *account) print(b *strings.Builder, t *test) {
	if t.end == "pass" || t.end == "skip" {
		return
	}
	var rest []string
	for line := range strings.Lines(t.output.String()) {
		switch {
		case strings.HasPrefix(line, "=== "):
		case strings.HasPrefix(strings.TrimLeft(line, " "), "--- "):
			b.WriteString(strings.Repeat("    ", strings.Count(t.name, "/")) + strings.TrimLeft(line, " "))
		default:
			rest = append(rest, line)
		}
	}
	if t.end == "" {
		fmt.Fprintf(b, "--- it did not end: %s\n", t.name)
	}
	b.WriteString(strings.Join(rest, ""))
	for _, below := range a.order {
		if a.above(below) == t {
			a.print(b, below)
		}
	}
}

// above is the parent test of t, or nil. Names of tests may contain slashes.
func (a *account) above(t *test) *test {
	name := t.name
	for i := strings.LastIndexByte(name, '/'); i > 0; i = strings.LastIndexByte(name, '/') {
		name = name[:i]
		if up := a.tests[name]; up != nil {
			return up
		}
	}
	return nil
}

// times lists the tests without subtests.
func (a *account) times(importPath string) []timing {
	var times []timing
	for _, t := range a.order {
		if !t.parent {
			times = append(times, timing{short(importPath) + " " + t.name, t.seconds})
		}
	}
	return times
}

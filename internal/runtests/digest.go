package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
)

// event is a line of go test -json.
type event struct {
	Action     string  `json:"Action"`
	Package    string  `json:"Package"`
	Test       string  `json:"Test"`
	ImportPath string  `json:"ImportPath"` // of what did not build
	Output     string  `json:"Output"`
	Elapsed    float64 `json:"Elapsed"`
}

// digest makes of the events of go test -json what go test prints without it,
// and remembers how long each test took.
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

// read prints the events of one go test, and returns the packages that failed.
func (d *digest) read(r io.Reader) (broken []string) {
	packages := map[string]*account{}
	lines := bufio.NewReader(r)
	for {
		line, err := lines.ReadString('\n')
		var e event
		switch {
		case line == "":
		case json.Unmarshal([]byte(line), &e) != nil || e.Action == "":
			d.write(line) // go test itself says something
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
			if e.Action == "fail" {
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
	return broken
}

// through prints what go test prints.
func (d *digest) through(r io.Reader) []string {
	lines := bufio.NewReader(r)
	for {
		line, err := lines.ReadString('\n')
		d.write(line)
		if err != nil {
			return nil
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

// slowest prints the n tests that took longest.
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

// account is what a package has said so far.
type account struct {
	own   strings.Builder // what belongs to none of its tests
	tests map[string]*test
	order []*test // as they began
}

type test struct {
	name    string
	output  strings.Builder
	end     string // pass, fail or skip, once it has ended
	seconds float64
	parent  bool // it has tests of its own
}

// note takes an event in, and reports whether it is the package's last.
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

// text is what go test would have printed of the package: of one that passed its
// last line, of one that failed its failed tests, and what else it said.
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

// print writes of a test that failed the verdict, then what led to it, and then the
// same of the tests below it, as go test does without -v.
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

// above is the test that t is a part of, nil if there is none. Names of tests may have
// slashes of their own.
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

// times lists the tests that have none of their own below them.
func (a *account) times(importPath string) []timing {
	var times []timing
	for _, t := range a.order {
		if !t.parent {
			times = append(times, timing{short(importPath) + " " + t.name, t.seconds})
		}
	}
	return times
}

package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
)

// mutant is one defect.
type mutant struct {
	name string // what is wrong with it
	file string // from the root of the repository
	old  string // occurs there once
	mut  string
	by   []check // in this order, until one catches it
}

// by are the checks that are to notice a mutant.
type by []check

// in are mutants of one file that the same checks are to notice.
func in(file string, checks by, mutants []mutant) []mutant {
	for i := range mutants {
		mutants[i].file, mutants[i].by = file, checks
	}
	return mutants
}

// check is a run of tests that should fail.
type check struct {
	name string
	dir  string // a module, from the root of the repository
	args []string
}

// verdict is what became of a mutant.
type verdict struct {
	mutant
	caught // nobody: it has survived
}

// caught is what noticed a mutant.
type caught struct {
	check string
	test  string // that failed
}

func (c caught) String() string {
	if c.check == "" {
		return "NOBODY"
	}
	return c.check + ": " + c.test
}

// errHung is a check that took longer than it may. It has not said what is wrong: a
// mutant that only hangs a check has survived.
var errHung = errors.New("timed out")

func main() {
	only := flag.String("only", "", "the mutants whose names match this regular expression")
	write := flag.Bool("write", false, "write what is found to docs/track-record/mutations.md")
	parallel := flag.Int("parallel", 2, "how many mutants are tried at a time")
	flag.Parse()
	if err := run(*only, *parallel, *write, os.Stdout); err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "mutation:", err)
		os.Exit(1)
	}
}

func run(only string, parallel int, write bool, out io.Writer) error {
	names, err := regexp.Compile(only)
	if err != nil {
		return err
	}
	root, err := findRoot()
	if err != nil {
		return err
	}
	var chosen []mutant
	for _, m := range mutants {
		if names.MatchString(m.name) {
			chosen = append(chosen, m)
		}
	}
	path := pagePath(root)
	known := readPage(path)
	noticed, began := 0, time.Now()
	var written error
	err = tryAll(root, chosen, parallel, known, func(v verdict, took time.Duration) {
		if v.caught != (caught{}) {
			noticed++
		}
		_, _ = fmt.Fprintf(out, "%5.1fs %-72s %s\n", took.Seconds(), v.name, v.caught)
		if write {
			written = errors.Join(written, writePage(path, v))
		}
	})
	_, _ = fmt.Fprintf(out, "%d of %d mutants caught in %v\n",
		noticed, len(chosen), time.Since(began).Round(time.Second))
	switch err := errors.Join(err, written); {
	case err != nil:
		return err
	case len(chosen) == 0:
		return fmt.Errorf("no mutant matches %q", only)
	case noticed < len(chosen):
		return fmt.Errorf("%d mutants have survived: a test is missing for each", len(chosen)-noticed)
	}
	return nil
}

// tryAll tries the mutants, parallel of them at a time, and reports each result at once.
func tryAll(root string, chosen []mutant, parallel int, known map[string]caught,
	tell func(verdict, time.Duration),
) error {
	var wg sync.WaitGroup
	var mu sync.Mutex
	var errs []error
	next := make(chan int)
	for range max(parallel, 1) {
		wg.Go(func() {
			for i := range next {
				began := time.Now()
				v, err := try(root, chosen[i], known[chosen[i].name])
				mu.Lock()
				if err != nil {
					errs = append(errs, fmt.Errorf("%s: %w", chosen[i].name, err))
				} else {
					tell(v, time.Since(began))
				}
				mu.Unlock()
			}
		})
	}
	for i := range chosen {
		next <- i
	}
	close(next)
	wg.Wait()
	return errors.Join(errs...)
}

// findRoot is the repository, from anywhere in it.
func findRoot() (string, error) {
	dir, err := os.Getwd()
	for err == nil {
		if _, missing := os.Stat(filepath.Join(dir, "go.work")); missing == nil {
			return dir, nil
		}
		if filepath.Dir(dir) == dir {
			return "", fmt.Errorf("no go.work above: run this inside of the repository")
		}
		dir = filepath.Dir(dir)
	}
	return "", err
}

// apply puts the defect into the text of its file.
func (m mutant) apply(text string) (string, error) {
	switch n := strings.Count(text, m.old); {
	case n != 1:
		return "", fmt.Errorf("what is to be replaced stands %d times in %s: the code has moved on, "+
			"write the mutant anew:\n%s", n, m.file, m.old)
	case m.old == m.mut:
		return "", fmt.Errorf("it changes nothing in %s", m.file)
	}
	return strings.Replace(text, m.old, m.mut, 1), nil
}

// try asks the checks about a mutant: the test that noticed it last time, and only if
// that one notices nothing all that its checks have.
func try(root string, m mutant, last caught) (verdict, error) {
	v := verdict{mutant: m}
	file := filepath.Join(root, filepath.FromSlash(m.file))
	text, err := os.ReadFile(file)
	if err != nil {
		return v, err
	}
	mutated, err := m.apply(string(text))
	if err != nil {
		return v, err
	}
	dir, err := os.MkdirTemp("", "mutation")
	if err != nil {
		return v, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	broken := filepath.Join(dir, filepath.Base(file))
	if err := os.WriteFile(broken, []byte(mutated), 0o600); err != nil { //nolint:gosec // in a directory of our own
		return v, err
	}
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": {file: broken}})
	if err != nil {
		return v, err
	}
	list := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(list, overlay, 0o600); err != nil {
		return v, err
	}
	for _, c := range slices.Concat(again(m.by, last), m.by) {
		test, err := c.fails(root, list)
		switch {
		case errors.Is(err, errHung):
		case err != nil:
			return v, err
		case test != "":
			v.caught = caught{check: c.name, test: test}
			return v, nil
		}
	}
	return v, nil
}

// again is the check that noticed a mutant last time, of the one test that failed.
func again(by []check, last caught) []check {
	for _, c := range by {
		if c.name != last.check {
			continue
		}
		args := slices.DeleteFunc(slices.Clone(c.args), func(arg string) bool {
			return strings.HasPrefix(arg, "-run=")
		})
		c.args = append([]string{"-run=^" + last.test + "$"}, args...)
		return []check{c}
	}
	return nil
}

// failure is how go test names a test that failed, crash what is in the trace of a
// panic that ended the tests, and hang what is printed of one that did not end.
var (
	failure = regexp.MustCompile(`(?m)^--- FAIL: (\w+)`)
	crash   = regexp.MustCompile(`(?m)^(?:panic|fatal error): [\s\S]*?\.(Test\w+)[.(]`)
	hang    = regexp.MustCompile(`(?m)^panic: test timed out after `)
)

// fails answers the first test that fails with an overlay, "" if all pass.
func (c check) fails(root, overlay string) (string, error) {
	args := append([]string{
		"test", "-vet=off", "-count=1", "-failfast", "-timeout=3m", "-ldflags=-s -w", "-overlay=" + overlay,
	}, c.args...)
	cmd := exec.CommandContext(context.Background(), "go", args...)
	cmd.Dir = filepath.Join(root, c.dir)
	out, err := cmd.CombinedOutput()
	if err == nil {
		return "", nil
	}
	if found := failure.FindSubmatch(out); found != nil {
		return string(found[1]), nil
	}
	if hang.Match(out) {
		return "", errHung
	}
	if found := crash.FindSubmatch(out); found != nil {
		return string(found[1]), nil
	}
	return "", fmt.Errorf("%s fails, and no test does: %w\n%s", c.name, err, tail(out))
}

func tail(out []byte) []byte { return out[max(0, len(out)-2000):] }

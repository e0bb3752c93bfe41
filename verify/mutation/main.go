package main

import (
	"cmp"
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
	name  string // what is wrong with it
	by    string // the test that catches it
	old   string // occurs once in its file
	mut   string
	file  string // from the root of the repository
	tests check
}

// check is a package whose tests should fail.
type check struct {
	module string // from the root of the repository
	pkg    string
	flags  []string
}

// errHung is a run that took longer than it may. It has not said what is wrong: a mutant that
// only hangs its tests has survived.
var errHung = errors.New("timed out")

func main() {
	only := flag.String("only", "", "the mutants whose names match this regular expression")
	parallel := flag.Int("parallel", 2, "how many mutants are tried at a time")
	flag.Parse()
	if err := run(*only, *parallel, os.Stdout); err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "mutation:", err)
		os.Exit(1)
	}
}

func run(only string, parallel int, out io.Writer) error {
	names, err := regexp.Compile(only)
	if err != nil {
		return err
	}
	root, err := findRoot()
	if err != nil {
		return err
	}
	chosen := slices.DeleteFunc(slices.Clone(mutants), func(m mutant) bool { return !names.MatchString(m.name) })
	if len(chosen) == 0 {
		return fmt.Errorf("no mutant matches %q", only)
	}
	tried, noticed, began := 0, 0, time.Now()
	err = tryAll(root, chosen, parallel, func(m mutant, test string, took time.Duration) {
		tried++
		if test != "" {
			noticed++
		}
		_, _ = fmt.Fprintf(out, "%3d/%d %5.1fs %-72s %s\n",
			tried, len(chosen), took.Seconds(), m.name, cmp.Or(test, "NOBODY"))
	})
	_, _ = fmt.Fprintf(out, "%d of %d mutants caught in %v\n",
		noticed, len(chosen), time.Since(began).Round(time.Second))
	if err == nil && noticed < len(chosen) {
		err = fmt.Errorf("%d mutants have survived: a test is missing for each", len(chosen)-noticed)
	}
	return err
}

// tryAll tries the mutants, parallel of them at a time, and reports each result at once.
func tryAll(root string, chosen []mutant, parallel int, tell func(m mutant, test string, took time.Duration)) error {
	var wg sync.WaitGroup
	var mu sync.Mutex
	var errs []error
	next := make(chan mutant)
	for range max(parallel, 1) {
		wg.Go(func() {
			for m := range next {
				began := time.Now()
				test, err := try(root, m)
				mu.Lock()
				if err != nil {
					errs = append(errs, fmt.Errorf("%s: %w", m.name, err))
				} else {
					tell(m, test, time.Since(began))
				}
				mu.Unlock()
			}
		})
	}
	for _, m := range chosen {
		next <- m
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

// try returns the test that notices a mutant, "" if none does.
func try(root string, m mutant) (test string, err error) {
	file := filepath.Join(root, filepath.FromSlash(m.file))
	text, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	mutated, err := m.apply(string(text))
	if err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp("", "mutation")
	if err != nil {
		return "", err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	broken := filepath.Join(dir, filepath.Base(file))
	if err := os.WriteFile(broken, []byte(mutated), 0o600); err != nil { //nolint:gosec // in a directory of our own
		return "", err
	}
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": {file: broken}})
	if err != nil {
		return "", err
	}
	list := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(list, overlay, 0o600); err != nil {
		return "", err
	}
	for _, more := range []string{"-run=" + exactly(m.by), ""} {
		test, err := m.tests.fails(root, list, more)
		switch {
		case errors.Is(err, errHung):
		case err != nil:
			return "", err
		case test != "" && more == "":
			return test + ", and not " + m.by, nil
		case test != "":
			return m.by, nil
		}
	}
	return "", nil
}

// exactly matches a test, or a subtest, and no other.
func exactly(test string) string { return "^" + strings.ReplaceAll(test, "/", "$/^") + "$" }

// failure is how go test names a test that failed, crash what is in the trace of a
// panic that ended the tests, and hang what is printed of one that did not end.
var (
	failure = regexp.MustCompile(`(?m)^--- FAIL: (\w+)`)
	crash   = regexp.MustCompile(`(?m)^(?:panic|fatal error): [\s\S]*?\.(Test\w+)[.(]`)
	hang    = regexp.MustCompile(`(?m)^panic: test timed out after `)
)

// fails returns the first test that fails with an overlay, "" if all pass. more may be a flag of go
// test, which counts instead of the check's own.
func (c check) fails(root, overlay, more string) (string, error) {
	args := []string{
		"test", "-trimpath", "-vet=off", "-failfast", "-timeout=3m", "-ldflags=-s -w", "-overlay=" + overlay, c.pkg,
	}
	args = append(args, c.flags...)
	if more != "" {
		args = append(args, more)
	}
	cmd := exec.CommandContext(context.Background(), "go", args...)
	cmd.Dir = filepath.Join(root, c.module)
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
	return "", fmt.Errorf("%s fails, and no test does: %w\n%s", c.pkg, err, tail(out))
}

func tail(out []byte) []byte { return out[max(0, len(out)-2000):] }

package main

import (
	"bytes"
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
	"strings"
	"sync"
	"time"
)

// mutant is one defect.
type mutant struct {
	name string // what is wrong with it
	file string // from the root of the repository
	old  string // stands there once
	mut  string
	by   []check // in this order, until one catches it
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
	check string // that caught it; empty: it has survived
	test  string // that failed
}

// patience bounds one check: a mutant may well hang.
const patience = 8 * time.Minute

func main() {
	only := flag.String("only", "", "the mutants whose names match this regular expression")
	write := flag.Bool("write", false, "write the table to docs/track-record/mutations.md")
	flag.Parse()
	if err := run(*only, *write, os.Stdout); err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "mutation:", err)
		os.Exit(1)
	}
}

func run(only string, write bool, out io.Writer) error {
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
	survived := 0
	all, err := tryAll(root, chosen, func(v verdict) {
		if v.check == "" {
			survived++
			v.check, v.test = "NOBODY", "-"
		}
		_, _ = fmt.Fprintf(out, "%-72s %s: %s\n", v.name, v.check, v.test)
	})
	if err != nil {
		return err
	}
	if write && survived == 0 && only == "" {
		page := filepath.Join(root, "docs", "track-record", "mutations.md")
		if err := os.WriteFile(page, table(all), 0o600); err != nil {
			return err
		}
	}
	_, _ = fmt.Fprintf(out, "%d of %d mutants caught\n", len(all)-survived, len(all))
	switch {
	case len(all) == 0:
		return fmt.Errorf("no mutant matches %q", only)
	case survived > 0:
		return fmt.Errorf("%d mutants have survived: a test is missing for each", survived)
	}
	return nil
}

// abreast is how many mutants are tried at a time: the checks spend half of their time
// waiting for the compiler.
const abreast = 2

// tryAll tries the mutants and tells of each as it is known.
func tryAll(root string, chosen []mutant, tell func(verdict)) ([]verdict, error) {
	var wg sync.WaitGroup
	var mu sync.Mutex
	all, errs := make([]verdict, len(chosen)), make([]error, len(chosen))
	next := make(chan int)
	for range abreast {
		wg.Go(func() {
			for i := range next {
				v, err := try(root, chosen[i])
				mu.Lock()
				if all[i], errs[i] = v, err; err != nil {
					errs[i] = fmt.Errorf("%s: %w", chosen[i].name, err)
				} else {
					tell(v)
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
	return all, errors.Join(errs...)
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

// try asks the checks about a mutant.
func try(root string, m mutant) (verdict, error) {
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
	for _, c := range m.by {
		test, err := c.fails(root, list)
		if err != nil {
			return v, err
		}
		if test != "" {
			v.check, v.test = c.name, test
			return v, nil
		}
	}
	return v, nil
}

var failure = regexp.MustCompile(`(?m)^(?:--- FAIL: |panic: test timed out after .*\n\s+running tests:\n\s+)([\w/]+)`)

// fails answers the first test that fails with an overlay, "" if all pass.
func (c check) fails(root, overlay string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	args := append([]string{
		"test", "-vet=off", "-count=1", "-failfast", "-timeout=5m", "-overlay=" + overlay,
	}, c.args...)
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = filepath.Join(root, c.dir)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	if err == nil {
		return "", nil
	}
	found := failure.FindSubmatch(out.Bytes())
	if found == nil {
		return "", fmt.Errorf("%s fails, and no test does: %w\n%s", c.name, err, tail(out.Bytes()))
	}
	return string(found[1]), nil
}

func tail(out []byte) []byte { return out[max(0, len(out)-2000):] }

// table is the page that shows what caught what.
func table(all []verdict) []byte {
	var b bytes.Buffer
	b.WriteString("# Mutations\n\n" +
		"Each line is a defect that was put into the library on purpose, and the first check that noticed it.\n" +
		"Written by `make mutation`, which breaks one rule after the other and fails if a defect survives; what\n" +
		"exactly is replaced is in [verify/mutation](../../verify/mutation).\n\n" +
		"| defect | in | caught by |\n|---|---|---|\n")
	for _, v := range all {
		fmt.Fprintf(&b, "| %s | `%s` | %s: `%s` |\n", v.name, v.file, v.check, v.test)
	}
	return b.Bytes()
}

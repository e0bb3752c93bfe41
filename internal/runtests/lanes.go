package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"slices"
	"strconv"
	"strings"
)

// root is the module whose packages need no other.
const root = "github.com/holdfast-go/holdfast"

// slowestShown is how many of the slowest tests are printed at the end.
const slowestShown = 10

// How many packages a lane compiles or tests at once. Most of the tests wait for
// servers; with more company their machine would be the fault that they find.
const (
	racedAtOnce = 3
	plainAtOnce = 3
)

// plainFlags are for packages that have been vetted already.
var plainFlags = []string{"-vet=off", "-p=" + strconv.Itoa(plainAtOnce)}

func raceFlags(race bool) []string {
	flags := []string{"-vet=off", "-p=" + strconv.Itoa(racedAtOnce)}
	if race {
		flags = append(flags, "-race")
	}
	return flags
}

// races reports whether the race detector has something to find in a package: in
// the library, its parts and its stores, and in the tests that run them against
// real servers. The others are one goroutine after the other, as the scripts, the
// simulation and the oracle, or programs around the library, or processes of their own.
func races(importPath string) bool {
	first, rest, _ := strings.Cut(short(importPath), "/")
	switch first {
	case "bench", "cmd", "examples", "script":
		return false
	case "verify":
		return slices.Contains([]string{"rules", "topology", "quorum"}, rest)
	case "internal":
		return !slices.Contains([]string{
			"leasetime", "line", "majority", "repocheck", "runtests", "slot", "storetestenv", "transcript", "wire",
		}, rest)
	}
	return true
}

// searches reports whether a package has searches in virtual time, which are short
// with the race detector: it is tested without it as well.
func searches(importPath string) bool {
	return short(importPath) == "." || short(importPath) == "quorum"
}

// weight puts the packages first whose tests wait longest, so that they do so while
// the others are compiled, and last what takes longest to compile.
func weight(importPath string) int {
	for i, name := range []string{
		"verify/topology", "verify/rules", "verify/quorum", "verify/suite", "cmd/holdfast", "bench", "verify/lineage",
	} {
		if importPath == path.Join(root, name) {
			return i - 10
		}
	}
	if importPath == path.Join(root, "bench/etcd") {
		return 1
	}
	return 0
}

// pkg is a package as go list describes it.
type pkg struct {
	ImportPath string `json:"ImportPath"`
	Dir        string `json:"Dir"`
}

// split parts the packages, each half with the heaviest first. Some are in both.
func split(packages []pkg, such func(pkg) bool) (yes, no []string) {
	packages = slices.Clone(packages)
	slices.SortStableFunc(packages, func(a, b pkg) int { return weight(a.ImportPath) - weight(b.ImportPath) })
	for _, p := range packages {
		if such(p) {
			yes = append(yes, p.ImportPath)
		}
		if !such(p) || searches(p.ImportPath) {
			no = append(no, p.ImportPath)
		}
	}
	return yes, no
}

// modules answers the directories of the modules to test: those asked for, or all.
func (r *run) modules(ctx context.Context, asked []string) ([]string, error) {
	if len(asked) > 0 {
		return asked, nil
	}
	text, err := r.output(ctx, "work", "edit", "-json")
	if err != nil {
		return nil, err
	}
	var work struct {
		Use []struct {
			DiskPath string `json:"DiskPath"`
		} `json:"Use"`
	}
	if err := json.Unmarshal(text, &work); err != nil {
		return nil, err
	}
	for _, use := range work.Use {
		asked = append(asked, use.DiskPath)
	}
	if len(asked) == 0 {
		return nil, errNoModules
	}
	return asked, nil
}

// packages lists the packages of the modules.
func (r *run) packages(ctx context.Context, modules []string) ([]pkg, error) {
	args := []string{"list", "-json=ImportPath,Dir"}
	for _, module := range modules {
		args = append(args, "./"+path.Join(module, "..."))
	}
	text, err := r.output(ctx, args...)
	if err != nil {
		return nil, err
	}
	var all []pkg
	for stream := json.NewDecoder(bytes.NewReader(text)); ; {
		var p pkg
		if err := stream.Decode(&p); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, err
		}
		if !slices.Contains(all, p) {
			all = append(all, p)
		}
	}
}

func (r *run) output(ctx context.Context, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, r.goTool, args...)
	cmd.Stderr = os.Stderr
	text, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go %s: %w", strings.Join(args, " "), err)
	}
	return text, nil
}

// isolated vets a module without the workspace, which hides what its go.mod lacks:
// who uses one module has no workspace. To vet it, go builds all that it needs.
func (r *run) isolated(ctx context.Context, module string) {
	r.out.sayf("== vet: %s", module)
	cmd := exec.CommandContext(ctx, r.goTool, "vet", "./...")
	cmd.Dir, cmd.Env = module, append(os.Environ(), "GOWORK=off")
	text, err := cmd.CombinedOutput()
	r.out.write(string(text))
	if err != nil {
		r.out.sayf("FAIL\tgo vet ./... in %s: %v", module, err)
		r.fail("the vet of " + module)
	}
}

// test tests packages.
func (r *run) test(ctx context.Context, what string, env, flags, packages []string) {
	if len(packages) == 0 {
		return
	}
	r.out.sayf("== %s: %d packages", what, len(packages))
	args := slices.Concat([]string{"test"}, flags, r.flags)
	read := r.out.read
	if slices.ContainsFunc(r.flags, raw) {
		read = r.out.through
	} else {
		args = append(args, "-json")
	}
	cmd := exec.CommandContext(ctx, r.goTool, append(args, packages...)...)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stderr = os.Stderr
	stdout, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		r.out.sayf("FAIL\t%v", err)
		r.fail(what)
		return
	}
	broken := read(stdout)
	if err = cmd.Wait(); err != nil && len(broken) == 0 {
		broken = []string{what}
	}
	for _, name := range broken {
		r.fail(short(name))
	}
}

// raw reports whether a flag of go test asks for more than the usual lines.
func raw(flag string) bool {
	name, _, _ := strings.Cut(strings.TrimLeft(flag, "-"), "=")
	return slices.Contains([]string{"v", "json", "bench", "c", "list", "test.v", "args"}, name)
}

// short is a package's path without what all of them begin with.
func short(importPath string) string {
	if importPath == root {
		return "."
	}
	return strings.TrimPrefix(importPath, root+"/")
}

// secured runs a few tests again on servers that have TLS, the rights of
// docs/operating.md for their clients, and a prefix for a tenant. It does so without
// the race detector: with it, a handshake takes as long as the shortest requests may.
func (r *run) secured(ctx context.Context, packages []pkg) {
	env := []string{"HOLDFAST_TEST_SERVERS=secured"}
	for _, some := range []struct {
		tests    string
		packages []string
	}{
		{"Conformance$/^(actions|errors|bytes)$", []string{"store/goredis", "store/rueidis"}},
		{"TestScriptFlushIsNotNoticed|TestAWrongPasswordIsNamed", []string{"verify/rules"}},
	} {
		var there []string
		for _, name := range some.packages {
			importPath := path.Join(root, name)
			if slices.ContainsFunc(packages, func(p pkg) bool { return p.ImportPath == importPath }) {
				there = append(there, importPath)
			}
		}
		r.test(ctx, "test on secured servers", env, append(slices.Clone(plainFlags), "-run="+some.tests), there)
	}
}

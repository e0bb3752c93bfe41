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

// root is the module whose packages need no other module.
const root = "github.com/holdfast-go/holdfast"

// slowestShown is how many of the slowest tests are printed at the end.
const slowestShown = 10

// How many packages a lane compiles or tests at once. Most of the tests wait for
// servers. With more of them at a time, the load would cause the faults that they find.
const (
	racedAtOnce = 3
	plainAtOnce = 3
)

// plainEnv is the environment of all that runs without the race detector. The tool is built without
// cgo, and with it, go would compile every package of the tool a second time. The race detector needs it.
var plainEnv = []string{"CGO_ENABLED=0"}

// plainFlags are for packages that were vetted before.
var plainFlags = []string{"-vet=off", "-p=" + strconv.Itoa(plainAtOnce)}

func raceFlags(race bool) []string {
	flags := []string{"-vet=off", "-p=" + strconv.Itoa(racedAtOnce)}
	if race {
		flags = append(flags, "-race")
	}
	return flags
}

// races reports whether a package is tested with the race detector: the library, its
// parts and its stores, and the tests that run them against real servers. In the other
// packages no goroutines race, or they are programs around the library, or they test
// other processes. Some connect the library to a large other one and begin no goroutine: to compile
// that one a second time, for the race detector, would take longer than all of ours.
func races(importPath string) bool {
	switch short(importPath) {
	case "fence/s3fence", "integrate/certmagiclock", "observe/otel", "observe/prom":
		return false
	}
	first, rest, _ := strings.Cut(short(importPath), "/")
	switch first {
	case "bench", "cmd", "examples", "packaging", "script", "vet":
		return false
	case "verify":
		return slices.Contains([]string{"rules", "topology", "quorum"}, rest)
	case "tests":
		return slices.Contains([]string{"compat", "redisson"}, rest)
	case "internal":
		return !slices.Contains([]string{
			"leasetime", "majority", "repocheck", "runtests", "slot", "transcript", "versions", "wire",
		}, rest)
	}
	return true
}

// searches reports whether a package has random tests in virtual time. They are short
// with the race detector, so the package is also tested without it.
func searches(importPath string) bool {
	return short(importPath) == "." || short(importPath) == "quorum"
}

// weight orders packages. The first ones wait longest in their tests, so that the others
// are compiled meanwhile. The last ones take longest to compile.
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

// split divides the packages in two, each with the heaviest first. Some are in both.
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

// modules returns the directories of the modules to test: those in asked, or all.
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

// shareBuilds makes all builds of the run alike: those of the tests, and those that tests begin. What
// users get is built with -trimpath, and without that in the tests, go would compile every package
// once for each. -buildvcs=false: whether git trusts this directory is no matter of the code.
func (r *run) shareBuilds(ctx context.Context) error {
	usual, err := r.output(ctx, "env", "GOFLAGS")
	if err != nil {
		return err
	}
	return os.Setenv("GOFLAGS", strings.TrimSpace(string(usual))+" -trimpath -buildvcs=false")
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

// isolated vets a module without the workspace, because users of a module have none, and
// the workspace hides what its go.mod lacks. To vet it, go builds everything that it
// needs.
func (r *run) isolated(ctx context.Context, module string) {
	r.out.sayf("== vet: %s", module)
	cmd := exec.CommandContext(ctx, r.goTool, "vet", "./...")
	cmd.Dir, cmd.Env = module, append(os.Environ(), slices.Concat(plainEnv, []string{"GOWORK=off"})...)
	text, err := cmd.CombinedOutput()
	r.out.write(string(text))
	if err != nil {
		r.out.sayf("FAIL\tgo vet ./... in %s: %v", module, err)
		r.fail("the vet of " + module)
	}
}

// test tests packages. If the race detector crashes in one, it is tested once more.
func (r *run) test(ctx context.Context, what string, env, flags, packages []string) {
	crashed := r.testOnce(ctx, what, env, flags, packages)
	for _, name := range r.testOnce(ctx, "test again after a crash of the race detector", env, flags, crashed) {
		r.fail(short(name))
	}
}

// testOnce tests packages, and returns those in which the race detector has crashed.
func (r *run) testOnce(ctx context.Context, what string, env, flags, packages []string) (crashed []string) {
	if len(packages) == 0 {
		return nil
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
		return nil
	}
	broken, crashed := read(stdout)
	if err = cmd.Wait(); err != nil && len(broken)+len(crashed) == 0 {
		broken = []string{what}
	}
	for _, name := range broken {
		r.fail(short(name))
	}
	return crashed
}

// raw reports whether a flag of go test asks for more than the usual output.
func raw(flag string) bool {
	name, _, _ := strings.Cut(strings.TrimLeft(flag, "-"), "=")
	return slices.Contains([]string{"v", "json", "bench", "c", "list", "test.v", "args"}, name)
}

// short is a package's path without the common prefix.
func short(importPath string) string {
	if importPath == root {
		return "."
	}
	return strings.TrimPrefix(importPath, root+"/")
}

// secured runs a few tests again on servers with TLS, the permissions of
// docs/operating.md, and a prefix for a tenant. It does not use the race detector,
// because a handshake would then take as long as the shortest requests may.
func (r *run) secured(ctx context.Context, packages []pkg) {
	env := append([]string{"HOLDFAST_TEST_SERVERS=secured"}, plainEnv...)
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

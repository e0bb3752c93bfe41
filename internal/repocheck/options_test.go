package repocheck

import (
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"os/exec"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/assert"
)

// The kinds, each with a call that takes an option.
var kinds = []struct{ name, call string }{
	{"Mutex", `c.Mutex("x", %s)`},
	{"RWMutex", `c.RWMutex("x", %s)`},
	{"Semaphore", `c.Semaphore("x", 1, %s)`},
	{"MultiMutex", `c.MultiMutex([]string{"x", "y"}, %s)`},
	{"Periodic", `c.Periodic("x", time.Hour, %s)`},
	{"Election", `c.Election("x", %s)`},
}

// Every option, and the kinds for which it has a meaning.
var optionsOf = []struct{ option, kinds string }{
	{"TTL(time.Second)", "Mutex RWMutex Semaphore MultiMutex Periodic Election"},
	{"NoRenewal()", "Mutex RWMutex Semaphore MultiMutex Periodic Election"},
	{"MaxRenewals(3)", "Mutex RWMutex Semaphore MultiMutex Periodic Election"},
	{"LockDelay(time.Second)", "Mutex RWMutex Semaphore MultiMutex Periodic Election"},
	{"MaxHold(time.Minute)", "Mutex RWMutex Semaphore MultiMutex Periodic Election"},
	{"MaxWait(time.Second)", "Mutex RWMutex Semaphore MultiMutex Periodic Election"},
	{"WaitReplicas(1, time.Second)", "Mutex RWMutex Semaphore MultiMutex Periodic Election"},
	{"WaitAOF(0, time.Second)", "Mutex RWMutex Semaphore MultiMutex Periodic Election"},
	{`Tags(map[string]string{"order": "42"})`, "Mutex RWMutex Semaphore MultiMutex Periodic Election"},
	{"Tries(3, time.Second)", "Mutex RWMutex Semaphore MultiMutex Election"},
	{"BreakDeadlock()", "Mutex RWMutex Semaphore MultiMutex Election"},
	{"Checked()", "Mutex RWMutex Semaphore MultiMutex Election"},
	{"Reentrant()", "Mutex"},
	{`Owner("order/42")`, "Mutex"},
	{"MinHold(time.Second)", "Mutex"},
	{"ReadTTL(time.Second)", "RWMutex"},
	{"ServerLimit()", "Semaphore"},
	{"StartAt(0)", "Periodic"},
	{"DoneOnSuccess(2)", "Periodic"},
}

// An option compiles for a kind only if it has a meaning there. The type checker judges
// every option with every kind.
func TestAnOptionWithoutAMeaningDoesNotCompile(t *testing.T) {
	var program strings.Builder
	program.WriteString("package main; import (\"time\"; \"github.com/holdfast-go/holdfast\"); type _ time.Time\n")
	var calls []string // by line, from the second on
	wanted := map[string]bool{}
	for _, o := range optionsOf {
		for _, kind := range kinds {
			call := fmt.Sprintf(kind.call, "holdfast."+o.option)
			fmt.Fprintf(&program, "func _(c *holdfast.Client) { %s }\n", call)
			calls, wanted[call] = append(calls, call), slices.Contains(strings.Fields(o.kinds), kind.name)
		}
	}
	library := compiled(t)
	refused := map[string]error{}
	for line, err := range refusals(t, library, program.String()) {
		refused[calls[line-2]] = err
	}
	for _, call := range calls {
		err := refused[call]
		switch {
		case wanted[call] && err != nil:
			t.Errorf("%s is refused: %v", call, err)
		case !wanted[call] && err == nil:
			t.Errorf("%s compiles", call)
		case !wanted[call] && !strings.Contains(err.Error(), "does not implement holdfast."):
			t.Errorf("%s is refused for another reason: %v", call, err)
		}
	}
	wantComplete(t, library)
}

// wantComplete compares the tables with the library's own list of options and kinds.
func wantComplete(t *testing.T, library types.Importer) {
	t.Helper()
	root, err := library.Import("github.com/holdfast-go/holdfast")
	assert.Must(t, err)
	var has []string
	for _, name := range root.Scope().Names() {
		f, ok := root.Scope().Lookup(name).(*types.Func)
		if ok && f.Exported() && f.Signature().Results().Len() == 1 &&
			strings.HasSuffix(f.Signature().Results().At(0).Type().String(), "Option") {
			has = append(has, name)
		}
	}
	listed := map[string]bool{}
	for _, o := range optionsOf {
		name, _, _ := strings.Cut(o.option, "(")
		listed[name] = true
	}
	want := slices.Sorted(maps.Keys(listed))
	assert.True(t, slices.Equal(has, want), "the options are %v, and %v are judged", has, want)
	takers := map[string]bool{}
	client := reflect.TypeFor[*holdfast.Client]()
	for i := range client.NumMethod() {
		if m := client.Method(i); m.Type.IsVariadic() {
			takers[m.Name] = true
		}
	}
	for _, kind := range kinds {
		assert.True(t, takers[kind.name], "%s takes no options", kind.name)
		delete(takers, kind.name)
	}
	assert.Equal(t, len(takers), 0, "options of %v are not judged", takers)
}

// compiled finds the compiled library and the packages that a user's program needs.
func compiled(t *testing.T) types.Importer {
	t.Helper()
	// With -trimpath and without cgo, as what is tested without the race detector: nothing has to be compiled for it.
	cmd := exec.CommandContext(t.Context(), "go", "list", "-trimpath", "-export",
		"-f", "{{.ImportPath}} {{.Export}}", "github.com/holdfast-go/holdfast", "time")
	cmd.Env = append(cmd.Environ(), "CGO_ENABLED=0")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	assert.Must(t, err)
	files := map[string]string{}
	for line := range strings.Lines(string(out)) {
		name, file, _ := strings.Cut(strings.TrimSpace(line), " ")
		files[name] = file
	}
	return importer.ForCompiler(token.NewFileSet(), "gc", func(name string) (io.ReadCloser, error) {
		return os.Open(files[name])
	})
}

// refusals are the type errors of a program, by line.
func refusals(t *testing.T, library types.Importer, program string) map[int]error {
	t.Helper()
	fset := token.NewFileSet()
	tree, err := parser.ParseFile(fset, "main.go", program, parser.SkipObjectResolution)
	assert.Must(t, err)
	found := map[int]error{}
	cfg := types.Config{Importer: library, Error: func(err error) {
		var at types.Error
		assert.MustTrue(t, errors.As(err, &at) && fset.Position(at.Pos).Line >= 2, "the program: %v", err)
		found[fset.Position(at.Pos).Line] = err
	}}
	_, err = cfg.Check("main", fset, []*ast.File{tree}, nil)
	assert.MustTrue(t, (err != nil) == (len(found) > 0), "%v", err)
	return found
}

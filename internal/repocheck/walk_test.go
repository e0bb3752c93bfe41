package repocheck

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/assert"
)

// A reader who follows a call enters the functions that are longer than this number of
// lines. Shorter functions do not count.
const shortFunc = 5

// How much a reader must follow. The numbers only fall, see decision 8.
var walks = map[string]struct{ funcs, files int }{
	"lock":    {20, 9},
	"release": {14, 7},
}

// Parsing, arithmetic and contexts with a deadline are leaves: their names say what they do.
// The store does not belong to the library.
var leaves = []string{
	"internal/wire/", "internal/leasetime/", "internal/timelimit/", "internal/repocheck/", "memstore/",
}

// TestTheWalkIsShort counts, with coverage counters, how many functions the two most
// common calls enter, and in how many files. The page names all of these functions, and none
// that the call does not enter.
func TestTheWalkIsShort(t *testing.T) {
	dir := t.TempDir()
	program := filepath.Join(dir, "walk")
	run(t, nil, "go", "build", "-cover", "-covermode=atomic", "-coverpkg=github.com/holdfast-go/holdfast/...",
		"-o", program, "./testdata/walk")
	for call, limit := range walks {
		t.Run(call, func(t *testing.T) {
			named := namedOnPage(t, call)
			var w walk
			for range 3 { // if the machine pauses, a timer may add functions that the call does not enter
				counters := t.TempDir()
				run(t, []string{"GOCOVERDIR=" + t.TempDir()}, program, call, counters)
				w = walked(t, run(t, nil, "go", "tool", "covdata", "func", "-i="+counters))
				if len(w.long) <= limit.funcs && len(w.files) <= limit.files && len(w.differences(named)) == 0 {
					return
				}
			}
			t.Errorf("%s enters %d functions in %d files, of at most %d in %d:\n%s\ndocs/architecture.md: %q", call,
				len(w.long), len(w.files), limit.funcs, limit.files, strings.Join(w.long, "\n"), w.differences(named))
		})
	}
}

// The page that describes the walk has the same numbers.
func TestThePageDescribesTheWalk(t *testing.T) {
	lock, release := walks["lock"], walks["release"]
	want := fmt.Sprintf("`Lock` enters at most %d in %d files, and `Release` at most %d in %d files.",
		lock.funcs, lock.files, release.funcs, release.files)
	assert.True(t, strings.Contains(pageOfTheWalk(t), want), "docs/architecture.md does not say %q", want)
}

// pageOfTheWalk is the section of docs/architecture.md about the walk.
func pageOfTheWalk(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "architecture.md"))
	assert.Must(t, err)
	_, section, _ := strings.Cut(string(text), "### The walk through the code\n")
	section, _, _ = strings.Cut(section, "\n## ")
	return section
}

// namedOnPage lists the functions that the table of the page names for a call.
func namedOnPage(t *testing.T, call string) (names []string) {
	t.Helper()
	column := map[string]int{"lock": 2, "release": 3}[call]
	for _, line := range lines(pageOfTheWalk(t)) {
		cells := strings.Split(line, "|")
		if len(cells) != 5 || strings.TrimSpace(cells[1]) == "" {
			continue // no row, or the head
		}
		for _, name := range regexp.MustCompile("`([\\w.]+)`").FindAllStringSubmatch(cells[column], -1) {
			names = append(names, name[1])
		}
	}
	assert.MustTrue(t, len(names) >= 10, "the page names only %d functions of %s", len(names), call)
	return names
}

// walk is what a call entered.
type walk struct {
	all   []string        // every function, as Type.name or name
	long  []string        // those that a reader must follow
	files map[string]bool // the files of those
}

// differences says which long functions are not named, and which names are of no function that
// the call has entered. A name may begin with the package. Batcher.Offer also names the function
// Batcher.offer, which does its work.
func (w walk) differences(named []string) (found []string) {
	names := func(name, f string) bool { return name == f || strings.HasSuffix(name, "."+f) }
	for _, f := range w.long {
		folds := func(name string) bool { return names(strings.ToLower(name), strings.ToLower(f)) }
		if !slices.ContainsFunc(named, folds) {
			found = append(found, "does not name "+f)
		}
	}
	for _, name := range named {
		if !slices.ContainsFunc(w.all, func(f string) bool { return names(name, f) }) {
			found = append(found, "names "+name+", which is not entered")
		}
	}
	return found
}

// walked reads a report of what a call entered.
func walked(t *testing.T, report string) walk {
	t.Helper()
	w := walk{files: map[string]bool{}}
	for _, line := range lines(report) {
		// github.com/holdfast-go/holdfast/hold.go:66:  *Client.begin  72.2%
		words := strings.Fields(line)
		place, ok := strings.CutPrefix(words[0], "github.com/holdfast-go/holdfast/")
		if !ok || words[2] == "0.0%" {
			continue
		}
		file, number, _ := strings.Cut(strings.TrimSuffix(place, ":"), ":")
		name, length := declared(t, file, number)
		w.all = append(w.all, name)
		if !isLeaf(file) && length > shortFunc {
			w.long = append(w.long, name)
			w.files[file] = true
		}
	}
	assert.MustTrue(t, len(w.long) != 0, "no function was entered:\n%s", report)
	return w
}

func isLeaf(file string) bool {
	for _, leaf := range leaves {
		if strings.HasPrefix(file, leaf) {
			return true
		}
	}
	return false
}

// declared returns the name of the function at a line, with its type, and its number of lines from
// func to its last brace.
func declared(t *testing.T, file, number string) (name string, length int) {
	t.Helper()
	at, err := strconv.Atoi(number)
	assert.Must(t, err)
	fset := token.NewFileSet()
	tree, err := parser.ParseFile(fset, filepath.Join("..", "..", file), nil, parser.SkipObjectResolution)
	assert.Must(t, err)
	for _, decl := range tree.Decls {
		f, ok := decl.(*ast.FuncDecl)
		// The report has the line of the body's brace, which is another if the signature has several.
		if !ok || f.Body == nil || fset.Position(f.Body.Lbrace).Line != at {
			continue
		}
		name, length = f.Name.Name, fset.Position(f.End()).Line-fset.Position(f.Pos()).Line+1
		if f.Recv != nil {
			receiver, _, _ := strings.Cut(strings.TrimPrefix(types.ExprString(f.Recv.List[0].Type), "*"), "[")
			name = receiver + "." + name
		}
		return name, length
	}
	return "", 0 // a function literal is part of the one around it
}

// run runs a program and returns its output.
func run(t *testing.T, env []string, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.Output()
	if err != nil {
		detail := ""
		if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
			detail = string(exit.Stderr)
		}
		t.Fatal(fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, detail))
	}
	return string(out)
}

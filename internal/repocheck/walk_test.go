package repocheck

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
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
// common calls enter, and in how many files.
func TestTheWalkIsShort(t *testing.T) {
	dir := t.TempDir()
	program := filepath.Join(dir, "walk")
	run(t, nil, "go", "build", "-cover", "-covermode=atomic", "-coverpkg=github.com/holdfast-go/holdfast/...",
		"-o", program, "./testdata/walk")
	for call, limit := range walks {
		t.Run(call, func(t *testing.T) {
			var funcs []string
			var files map[string]bool
			for range 3 { // if the machine pauses, a timer may add functions that the call does not enter
				counters := t.TempDir()
				run(t, []string{"GOCOVERDIR=" + t.TempDir()}, program, call, counters)
				funcs, files = followed(t, run(t, nil, "go", "tool", "covdata", "func", "-i="+counters))
				if len(funcs) <= limit.funcs && len(files) <= limit.files {
					return
				}
			}
			t.Errorf("%s enters %d functions in %d files, more than %d in %d:\n%s",
				call, len(funcs), len(files), limit.funcs, limit.files, strings.Join(funcs, "\n"))
		})
	}
}

// The page that describes the walk has the same numbers, and its functions exist.
func TestThePageDescribesTheWalk(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "architecture.md"))
	assert.Must(t, err)
	_, walk, _ := strings.Cut(string(text), "### The walk through the code\n")
	walk, _, _ = strings.Cut(walk, "\n## ")
	lock, release := walks["lock"], walks["release"]
	want := fmt.Sprintf("`Lock` enters at most %d in %d files, and `Release` at most %d in %d files.",
		lock.funcs, lock.files, release.funcs, release.files)
	assert.True(t, strings.Contains(walk, want), "docs/architecture.md does not say %q", want)
	code := map[string]string{}
	for file, text := range readTree(t) {
		if filepath.Ext(file) == ".go" && !strings.HasSuffix(file, "_test.go") {
			code[file] = text
		}
	}
	named := regexp.MustCompile("`(?:\\w+\\.)?(\\w+)\\.(\\w+)`").FindAllStringSubmatch(walk, -1)
	assert.MustTrue(t, len(named) >= 20, "the page names only %d methods", len(named))
	for _, name := range named {
		method := regexp.MustCompile(`func \([a-z]+ \*?` + name[1] + `(\[[^]]*\])?\) ` + name[2] + `[([]`)
		found := name[1] == "Store" // an interface
		for _, text := range code {
			found = found || method.MatchString(text)
		}
		assert.True(t, found, "docs/architecture.md names %s, which does not exist", name[0])
	}
}

// followed lists the functions in a report that the call entered and that are no leaves.
func followed(t *testing.T, report string) (funcs []string, files map[string]bool) {
	t.Helper()
	files = map[string]bool{}
	for _, line := range lines(report) {
		// github.com/holdfast-go/holdfast/hold.go:66:  *Client.begin  72.2%
		words := strings.Fields(line)
		place, ok := strings.CutPrefix(words[0], "github.com/holdfast-go/holdfast/")
		if !ok || words[2] == "0.0%" {
			continue
		}
		file, number, _ := strings.Cut(strings.TrimSuffix(place, ":"), ":")
		if isLeaf(file) || length(t, file, number) <= shortFunc {
			continue
		}
		funcs = append(funcs, place+" "+words[1])
		files[file] = true
	}
	assert.MustTrue(t, len(funcs) != 0, "no function was entered:\n%s", report)
	return funcs, files
}

func isLeaf(file string) bool {
	for _, leaf := range leaves {
		if strings.HasPrefix(file, leaf) {
			return true
		}
	}
	return false
}

// length is the number of lines of the function at a line, from func to its last brace.
func length(t *testing.T, file, number string) int {
	t.Helper()
	at, err := strconv.Atoi(number)
	assert.Must(t, err)
	fset := token.NewFileSet()
	tree, err := parser.ParseFile(fset, filepath.Join("..", "..", file), nil, parser.SkipObjectResolution)
	assert.Must(t, err)
	for _, decl := range tree.Decls {
		f, ok := decl.(*ast.FuncDecl)
		// The report has the line of the body's brace, which is another if the signature has several.
		if ok && f.Body != nil && fset.Position(f.Body.Lbrace).Line == at {
			return fset.Position(f.End()).Line - fset.Position(f.Pos()).Line + 1
		}
	}
	return 0 // a function literal is part of the one around it
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

package repocheck

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"path"
	"regexp"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/assert"
)

// A name in the tables of the walk: `Type.method`, `function`, `package.Type.method`, or a call of one with arguments.
var walkName = regexp.MustCompile("`([A-Za-z][\\w.]*)(?:\\([^`]*\\))?`")

// TestTheWalkNamesFunctionsThatExist: the walks of these pages lead a reader from function to function, so
// each of them must be there.
func TestTheWalkNamesFunctionsThatExist(t *testing.T) {
	files := readTree(t)
	there := declared(t, files)
	for _, page := range []string{"docs/architecture.md", "docs/quorum.md"} {
		_, section, found := strings.Cut(files[page], "### The walk through the code\n")
		assert.MustTrue(t, found, "%s has no section about the walk", page)
		section, _, _ = strings.Cut(section, "\n## ")
		missing, named := missingOnWalk(section, there)
		assert.True(t, named >= 20, "%s: the walk names only %d functions: what was read?", page, named)
		for _, name := range missing {
			t.Errorf("%s: the walk names %s, which does not exist", page, name)
		}
	}
}

func TestMissingOnWalk(t *testing.T) {
	there := declared(t, tree{
		"a.go":        "package a\n\nfunc (m *Mutex) Lock() {}\nfunc newHold() {}\n",
		"x/y/b.go":    "package y\n\nfunc (q *Queue[T]) Take() {}\ntype Store interface{ Run() }\n",
		"a_test.go":   "package a\n\nfunc gone() {}\n",
		"x/y/b.lua":   "return 1\n",
		"other.go":    "package a\n",
		"docs/a.page": "",
	})
	page := "Text with `gone`.\n\n| | `Mutex.Lock` | b |\n|---|---|---|\n" +
		"| 1 | `Mutex.Lock`, `newHold`: then | `y.Queue.Take`, `Store.Run(acquire)` |\n" +
		"| 2 | `gone`, `Queue.Lock` | |\n"
	missing, named := missingOnWalk(page, there)
	assert.Equal(t, strings.Join(missing, " "), "gone Queue.Lock", "missing")
	assert.Equal(t, named, 7, "named")
}

// missingOnWalk lists the names in the tables of a page that no function has, and counts all names.
func missingOnWalk(page string, there map[string]bool) (missing []string, named int) {
	for _, line := range lines(page) {
		if !strings.HasPrefix(line, "|") {
			continue
		}
		for _, m := range walkName.FindAllStringSubmatch(line, -1) {
			named++
			if !there[m[1]] {
				missing = append(missing, m[1])
			}
		}
	}
	return missing, named
}

// declared has every function and method of the code, and the methods of interfaces: as they are called in their
// package, and with the package in front.
func declared(t *testing.T, files tree) map[string]bool {
	t.Helper()
	there := map[string]bool{}
	for file, text := range files {
		if path.Ext(file) != ".go" || isTest(file) || strings.Contains(file, "testdata/") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, text, parser.SkipObjectResolution)
		assert.Must(t, err)
		add := func(name string) {
			there[name], there[parsed.Name.Name+"."+name] = true, true
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				if n.Recv == nil {
					add(n.Name.Name)
					return false
				}
				receiver, _, _ := strings.Cut(strings.TrimPrefix(types.ExprString(n.Recv.List[0].Type), "*"), "[")
				add(receiver + "." + n.Name.Name)
				return false
			case *ast.TypeSpec:
				if face, ok := n.Type.(*ast.InterfaceType); ok {
					for _, method := range face.Methods.List {
						for _, name := range method.Names {
							add(n.Name.Name + "." + name.Name)
						}
					}
				}
			}
			return true
		})
	}
	return there
}

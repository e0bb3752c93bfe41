package repocheck

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/assert"
)

// The limits of the root, so that new readers find their way. The counts of methods only
// fall; the aim for every type is 30.
const (
	mostRootFiles     = 23
	mostClientMethods = 20
)

var manyMethods = map[string]int{"Client": mostClientMethods}

const mostMethods = 30

// TestTheRootIsAsThePageSays compares docs/architecture.md with the files of the root:
// each file begins with its sentence on the page.
func TestTheRootIsAsThePageSays(t *testing.T) {
	files := readTree(t)
	page := files["docs/architecture.md"]
	assert.MustTrue(t, page != "", "there is no docs/architecture.md")
	root, methods := 0, map[string]int{}
	for name, text := range files {
		if strings.Contains(name, "/") || filepath.Ext(name) != ".go" || strings.HasSuffix(name, "_test.go") {
			continue
		}
		root++
		sentence, found := strings.CutPrefix(strings.SplitN(text, "\n", 2)[0], "// ")
		assert.True(t, found && strings.Contains(page, "| `"+name+"` | "+sentence+" |\n"),
			"%s begins with %q: docs/architecture.md has no row of that", name, sentence)
		countMethods(t, name, text, methods)
	}
	assert.False(t, root == 0 || root > mostRootFiles, "the root has %d files, more than %d", root, mostRootFiles)
	for owner, n := range methods {
		limit := mostMethods
		if known, ok := manyMethods[owner]; ok {
			limit = known
		}
		assert.True(t, n <= limit, "%s has %d methods, more than %d", owner, n, limit)
	}
	assert.True(t, methods["Client"] != 0, "the client has no methods: what was counted?")
}

// countMethods adds the methods of a file to those of their types.
func countMethods(t *testing.T, name, text string, methods map[string]int) {
	t.Helper()
	tree, err := parser.ParseFile(token.NewFileSet(), name, text, parser.SkipObjectResolution)
	assert.Must(t, err)
	for _, decl := range tree.Decls {
		f, ok := decl.(*ast.FuncDecl)
		if !ok || f.Recv == nil {
			continue
		}
		of := f.Recv.List[0].Type
		if star, ok := of.(*ast.StarExpr); ok {
			of = star.X
		}
		if index, ok := of.(*ast.IndexListExpr); ok {
			of = index.X
		}
		if owner, ok := of.(*ast.Ident); ok {
			methods[owner.Name]++
		}
	}
}

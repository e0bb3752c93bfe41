package store_test

import (
	"context"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/store"
)

type bare struct{ store.Store }

type batching struct{ bare }

func (batching) Batches() bool { return true }

func (batching) Scan(context.Context, string, func([]string) error) error { return nil }

type wrapper struct{ store.Store }

func (w wrapper) Unwrap() store.Store { return w.Store }

// A wrapper hides no optional interface of what it wraps, however deep that is.
func TestAWrapperHidesNoInterface(t *testing.T) {
	_, ok := store.As[store.Batcher](wrapper{wrapper{batching{}}})
	assert.True(t, ok, "two wrappers hide a Batcher")
	_, ok = store.As[store.Scanner](wrapper{batching{}})
	assert.True(t, ok, "a wrapper hides a Scanner")
	for what, s := range map[string]store.Store{
		"nothing": nil, "a store without it": bare{},
		"a wrapper of one without it": wrapper{bare{}}, "an empty wrapper": wrapper{},
	} {
		_, ok = store.As[store.Acker](s)
		assert.False(t, ok, "%s is an Acker", what)
	}
}

// A struct that embeds a Store and replaces one of its methods is a wrapper. Each one in the repository has Unwrap:
// without it, the optional interfaces of what it wraps are lost in silence.
func TestEveryWrapperUnwraps(t *testing.T) {
	embeds, methods := map[string]bool{}, map[string]map[string]bool{}
	err := filepath.WalkDir("..", func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() && (d.Name() == "bin" || d.Name() == "testdata" || d.Name() == ".git") {
			return fs.SkipDir
		}
		if filepath.Ext(file) != ".go" || strings.HasSuffix(file, "_test.go") {
			return nil
		}
		tree, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		assert.Must(t, err)
		for _, decl := range tree.Decls {
			noteWrappers(decl, filepath.Dir(file), embeds, methods)
		}
		return nil
	})
	assert.Must(t, err)
	wrappers, seam := 0, reflect.TypeFor[store.Store]()
	for name := range embeds {
		replaces := false
		for i := range seam.NumMethod() {
			replaces = replaces || methods[name][seam.Method(i).Name]
		}
		if replaces {
			wrappers++
			assert.True(t, methods[name]["Unwrap"], "%s wraps a store and has no method Unwrap", name)
		}
	}
	assert.True(t, wrappers > 1, "only %d wrappers found: what was read?", wrappers)
}

// noteWrappers notes the structs that embed a Store, and the methods of all types.
func noteWrappers(decl ast.Decl, dir string, embeds map[string]bool, methods map[string]map[string]bool) {
	switch d := decl.(type) {
	case *ast.FuncDecl:
		if d.Recv == nil {
			return
		}
		of := d.Recv.List[0].Type
		if star, ok := of.(*ast.StarExpr); ok {
			of = star.X
		}
		if owner, ok := of.(*ast.Ident); ok {
			name := dir + "." + owner.Name
			if methods[name] == nil {
				methods[name] = map[string]bool{}
			}
			methods[name][d.Name.Name] = true
		}
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			t, ok := spec.(*ast.TypeSpec)
			if !ok {
				continue
			}
			s, ok := t.Type.(*ast.StructType)
			if !ok {
				continue
			}
			for _, field := range s.Fields.List {
				sel, ok := field.Type.(*ast.SelectorExpr)
				if ok && len(field.Names) == 0 && sel.Sel.Name == "Store" {
					if pkg, ok := sel.X.(*ast.Ident); ok && (pkg.Name == "store" || pkg.Name == "holdfast") {
						embeds[dir+"."+t.Name.Name] = true
					}
				}
			}
		}
	}
}

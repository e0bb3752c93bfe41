package compat

import (
	"fmt"
	"go/importer"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/assert"
)

// faces are the packages whose exported names are compared. differs lists what is not as in the
// original, each with its reason. alone lists what only ours has.
var faces = []struct {
	theirs, ours string
	differs      map[string]string
	alone        []string
}{{
	theirs: "github.com/go-redsync/redsync/v4", ours: "github.com/holdfast-go/holdfast/compat/redsync",
	differs: map[string]string{
		"New": "its arguments are connections, which are stores here",
	},
	alone: []string{
		"ErrClosed", "ErrUnlocked", "Mutex.Context", "Mutex.Lost", "NewStore", "Pool", "Redsync.Close", "Store",
		"WithRenewal",
	},
}, {
	theirs: "github.com/bsm/redislock", ours: "github.com/holdfast-go/holdfast/compat/redislock",
	differs: map[string]string{
		"RedisClient": "it is a connection, which is a store here",
	},
	alone: []string{
		"Client.Close", "ErrClosed", "ErrReleased", "Lock.Close", "Lock.Context", "Lock.Lost", "NewStore",
		"Options.Renew", "Store",
	},
}}

// Every exported function, type, method, field, variable, constant and error of an original is in
// ours, and has the same type: so a program that changes one import and one constructor compiles.
func TestEveryNameOfTheOriginalIsThere(t *testing.T) {
	packages := load(t)
	for _, face := range faces {
		theirs, ours := names(packages[face.theirs]), names(packages[face.ours])
		assert.MustTrue(t, len(theirs) >= 20, "%s: only %d names were found", face.theirs, len(theirs))
		for _, name := range slices.Sorted(maps.Keys(theirs)) {
			reason, differs := face.differs[name]
			switch same := ours[name] == theirs[name]; {
			case same && differs:
				t.Errorf("%s: %s is as in the original, and listed: %s", face.ours, name, reason)
			case !same && !differs:
				t.Errorf("%s: %s is %q, and %q in the original", face.ours, name, ours[name], theirs[name])
			}
		}
		maps.DeleteFunc(ours, func(name, _ string) bool {
			owner, _, member := strings.Cut(name, ".")
			return theirs[name] != "" || member && theirs[owner] == "" // a member of what only ours has
		})
		if alone := slices.Sorted(maps.Keys(ours)); !slices.Equal(alone, face.alone) {
			t.Errorf("%s: ours alone are %q, and listed are %q", face.ours, alone, face.alone)
		}
	}
}

// load reads the packages as the compiler has written them down.
func load(t *testing.T) map[string]*types.Package {
	args := []string{"list", "-export", "-deps", "-f", "{{.ImportPath}} {{.Export}}"}
	for _, face := range faces {
		args = append(args, face.theirs, face.ours)
	}
	out, err := exec.CommandContext(t.Context(), "go", args...).Output()
	must(t, err)
	files := make(map[string]string)
	for line := range strings.Lines(string(out)) {
		path, file, _ := strings.Cut(strings.TrimSpace(line), " ")
		files[path] = file
	}
	read := importer.ForCompiler(token.NewFileSet(), "gc", func(path string) (io.ReadCloser, error) {
		return os.Open(files[path])
	})
	packages := make(map[string]*types.Package)
	for _, face := range faces {
		for _, path := range []string{face.theirs, face.ours} {
			packages[path], err = read.Import(path)
			must(t, err)
		}
	}
	return packages
}

// names returns the exported names of a package with what they are. The package itself and the
// names of parameters do not count.
func names(p *types.Package) map[string]string {
	own := func(other *types.Package) string {
		if other == p {
			return ""
		}
		return other.Path()
	}
	all := make(map[string]string)
	for _, name := range p.Scope().Names() {
		object := p.Scope().Lookup(name)
		if !object.Exported() {
			continue
		}
		all[name] = kind(object, own)
		if named, ok := object.(*types.TypeName); ok {
			members(named, all, own)
		}
	}
	return all
}

// kind says what an object is.
func kind(object types.Object, own types.Qualifier) string {
	what := fmt.Sprintf("%T", object)
	switch object := object.(type) {
	case *types.Const:
		return what + " " + types.TypeString(object.Type(), own) + " " + object.Val().ExactString()
	case *types.TypeName:
		under := object.Type().Underlying()
		if _, ok := under.(*types.Struct); ok {
			return what + " struct" // its fields are compared one by one
		}
		return what + " " + types.TypeString(unnamed(under), own)
	}
	return what + " " + types.TypeString(unnamed(object.Type()), own)
}

// unnamed removes the names of the parameters from a signature.
func unnamed(t types.Type) types.Type {
	f, ok := t.(*types.Signature)
	if !ok {
		return t
	}
	strip := func(list *types.Tuple) *types.Tuple {
		var vars []*types.Var
		for v := range list.Variables() {
			vars = append(vars, types.NewParam(token.NoPos, nil, "", v.Type()))
		}
		return types.NewTuple(vars...)
	}
	return types.NewSignatureType(nil, nil, nil, strip(f.Params()), strip(f.Results()), f.Variadic())
}

// members adds the exported methods and fields of a type. Those of an interface are in its kind.
func members(named *types.TypeName, all map[string]string, own types.Qualifier) {
	if types.IsInterface(named.Type()) {
		return
	}
	values := types.NewMethodSet(named.Type())
	for method := range types.NewMethodSet(types.NewPointer(named.Type())).Methods() {
		if object := method.Obj(); object.Exported() {
			ofValue := values.Lookup(object.Pkg(), object.Name()) != nil
			all[named.Name()+"."+object.Name()] = fmt.Sprintf("of a value: %v, %s", ofValue, kind(object, own))
		}
	}
	if fields, ok := named.Type().Underlying().(*types.Struct); ok {
		for field := range fields.Fields() {
			if field.Exported() {
				all[named.Name()+"."+field.Name()] = fmt.Sprintf("embedded: %v, %s", field.Embedded(), kind(field, own))
			}
		}
	}
}

package main

import (
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"
)

// modulePath is the path of the root module. The others are below it.
const modulePath = "github.com/holdfast-go/holdfast"

// unpublished are the modules that nobody installs: they measure, test, show and package.
var unpublished = []string{"bench", "bench/etcd", "examples", "packaging", "tests"}

// module is a module of the repository.
type module struct {
	dir      string   // from the root, with slashes; "." is the root
	needs    []string // the directories of the modules of this repository that it requires
	replaces []string // the paths that it replaces
}

func (m module) path() string { return path.Join(modulePath, m.dir) }

// tag is the git tag of a version of the module.
func (m module) tag(version string) string { return path.Join(m.dir, version) }

// parseModule reads the output of go mod edit -json for the module in dir.
func parseModule(dir string, text []byte) (module, error) {
	var file struct {
		Module  struct{ Path string }
		Require []struct{ Path string }
		Replace []struct{ Old struct{ Path string } }
	}
	m := module{dir: dir}
	if err := json.Unmarshal(text, &file); err != nil {
		return m, err
	}
	if file.Module.Path != m.path() {
		return m, fmt.Errorf("%s/go.mod has the module path %s; want %s", dir, file.Module.Path, m.path())
	}
	for _, r := range file.Require {
		if r.Path == modulePath {
			m.needs = append(m.needs, ".")
		} else if below, ok := strings.CutPrefix(r.Path, modulePath+"/"); ok {
			m.needs = append(m.needs, below)
		}
	}
	for _, r := range file.Replace {
		m.replaces = append(m.replaces, r.Old.Path)
	}
	return m, nil
}

// order returns the published modules, each behind those that it requires.
func order(all []module) ([]module, error) {
	var sorted []module
	done := make(map[string]bool)
	for len(sorted) < len(all) {
		before := len(sorted)
		for _, m := range all {
			ready := !done[m.dir] && !slices.ContainsFunc(m.needs, func(dir string) bool { return !done[dir] })
			if ready {
				done[m.dir] = true
				sorted = append(sorted, m)
			}
		}
		if len(sorted) == before {
			return nil, fmt.Errorf("published modules require each other in a cycle, "+
				"or require one that is not published (%s)", strings.Join(unpublished, ", "))
		}
	}
	return sorted, nil
}

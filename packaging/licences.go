package main

import (
	"bytes"
	"context"
	"debug/buildinfo"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/google/licensecheck"
	"golang.org/x/mod/module"
	"golang.org/x/mod/sumdb/dirhash"
)

// part is what a program is linked with: a module, or the standard library.
type part struct {
	path, version string
	sum           string // as in go.sum; the standard library and the modules of this repository have none
	commit        string // of the modules of this repository
	licence       string // an SPDX expression
	terms         []item // the files with its terms; those of this repository's modules are in LICENSE
}

// String is the name of a part where its files are: path@version.
func (p part) String() string { return p.path + "@" + p.version }

const (
	ours     = "github.com/holdfast-go/holdfast"
	standard = "std" // the module's name in Go's own go.mod

	ourLicence = "Apache-2.0"
)

// linked lists what the binaries are linked with, as the binaries themselves tell. Modules of this
// repository have its version.
func linked(version string, binaries []item) ([]part, error) {
	found := map[string]part{}
	add := func(p part) { found[p.String()] = p }
	for _, b := range binaries {
		info, err := buildinfo.Read(bytes.NewReader(b.data))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", b.name, err)
		}
		var commit string
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				commit = s.Value
			}
		}
		add(part{path: standard, version: strings.TrimPrefix(info.GoVersion, "go")})
		for _, m := range slices.Concat([]*debug.Module{&info.Main}, info.Deps) {
			switch {
			case m.Path == ours || strings.HasPrefix(m.Path, ours+"/"):
				add(part{path: m.Path, version: "v" + version, commit: commit, licence: ourLicence})
			case m.Replace != nil:
				add(part{path: m.Replace.Path, version: m.Replace.Version, sum: m.Replace.Sum})
			default:
				add(part{path: m.Path, version: m.Version, sum: m.Sum})
			}
		}
	}
	list := make([]part, 0, len(found))
	for _, p := range found {
		list = append(list, p)
	}
	slices.SortFunc(list, func(a, b part) int { return strings.Compare(a.String(), b.String()) })
	return list, nil
}

// origin is where go build took its parts from.
type origin struct{ cache, root, release string }

// origin asks the go command of the modules that are built: their go.mod may ask for another toolchain.
func (p *packager) origin(ctx context.Context) (origin, error) {
	said, err := output(ctx, filepath.Join(p.source, programs[0].module), []string{"GOWORK=off", "GOFLAGS="},
		p.goTool, "env", "GOMODCACHE", "GOROOT", "GOVERSION")
	if err != nil {
		return origin{}, err
	}
	words := strings.Split(said, "\n")
	if len(words) != 3 {
		return origin{}, fmt.Errorf("go env answers %q", said)
	}
	return origin{cache: words[0], root: words[1], release: strings.TrimPrefix(words[2], "go")}, nil
}

// licensed adds the licences to the parts.
func (o origin) licensed(parts []part) ([]part, error) {
	list := slices.Clone(parts)
	for i, p := range list {
		if p.licence != "" {
			continue
		}
		dir, err := o.dir(p)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p, err)
		}
		if list[i].terms, err = termsIn(dir, p.path != standard); err != nil {
			return nil, fmt.Errorf("%s: %w", p, err)
		}
		if list[i].licence, err = identify(list[i].terms); err != nil {
			return nil, fmt.Errorf("%s: %w", p, err)
		}
	}
	return list, nil
}

// dir is the directory of a part. A module there is what the binary was linked with, or it is an error.
func (o origin) dir(p part) (string, error) {
	if p.path == standard {
		if p.version != o.release {
			return "", fmt.Errorf("the go command is of release %s", o.release)
		}
		return o.root, nil
	}
	escaped, err := module.EscapePath(p.path)
	if err != nil {
		return "", err
	}
	version, err := module.EscapeVersion(p.version)
	if err != nil {
		return "", err
	}
	dir := filepath.Join(o.cache, filepath.FromSlash(escaped)+"@"+version)
	sum, err := dirhash.HashDir(dir, p.String(), dirhash.Hash1)
	if err != nil {
		return "", err
	}
	if sum != p.sum {
		return "", fmt.Errorf("the module cache has other files than the binary names: %s, not %s", sum, p.sum)
	}
	return dir, nil
}

// The names of files with terms. NOTICE and PATENTS belong to a licence, and are none.
var (
	termsName   = regexp.MustCompile(`(?i)^(licen[cs]e|unlicense|copying|copyright|notice|patents)([._-].*)?$`)
	licenceName = regexp.MustCompile(`(?i)^(licen[cs]e|unlicense|copying|copyright)`)
)

// termsIn reads the files with terms in a directory, and if deep is set, in those below: parts of a
// module can have a licence of their own.
func termsIn(root string, deep bool) ([]item, error) {
	var list []item
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && name != root && (!deep || d.Name() == "testdata"):
			return fs.SkipDir
		case d.IsDir() || !termsName.MatchString(d.Name()) || path.Ext(d.Name()) == ".go":
			return nil
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		list = append(list, item{filepath.ToSlash(rel), text, 0o644})
		return nil
	})
	return list, err
}

// permitted are the licences that a linked module may have, with their names in Debian. A new one
// needs a look at what it asks of those who distribute binaries.
var permitted = map[string]string{
	"Apache-2.0":   "Apache-2.0",
	"BSD-2-Clause": "BSD-2-clause",
	"BSD-3-Clause": "BSD-3-clause",
	"BSL-1.0":      "BSL-1.0",
	"ISC":          "ISC",
	"MIT":          "Expat",
	"Unlicense":    "Unlicense",
}

// decide is the next step for a maintainer.
const decide = "read it, and decide in packaging/licences.go"

// wellKnown is the percentage of a file's words that must be a known licence. The rest is such
// as a copyright line, or where the code came from.
const wellKnown = 75

// identify returns the licence of all terms together. Each file with a licence must be a known one.
func identify(terms []item) (string, error) {
	var ids []string
	atRoot := false
	for _, file := range terms {
		if !licenceName.MatchString(path.Base(file.name)) {
			continue
		}
		found := licencesOf(file.data)
		if len(found) == 0 {
			return "", fmt.Errorf("%s: the licence is unknown: %s", file.name, decide)
		}
		for _, id := range found {
			if permitted[id] == "" {
				return "", fmt.Errorf("%s: %s is not among the permitted licences: %s", file.name, id, decide)
			}
		}
		ids = append(ids, found...)
		atRoot = atRoot || path.Dir(file.name) == "."
	}
	if !atRoot {
		return "", errors.New("has no file with a licence, so it may not be distributed: use another module")
	}
	slices.Sort(ids)
	return strings.Join(slices.Compact(ids), " AND "), nil
}

// licencesOf returns the SPDX identifiers of a text, or none if much of it is something else.
func licencesOf(text []byte) []string {
	cover := licensecheck.Scan(text)
	if cover.Percent < wellKnown {
		return nil
	}
	var ids []string
	for _, m := range cover.Match {
		if !m.IsURL {
			ids = append(ids, m.ID)
		}
	}
	return ids
}

// notices is the file with the terms of everything that the programs are linked with.
const notices = "LICENSES.txt"

const noticesHead = `Holdfast is under the Apache License 2.0, see LICENSE. The programs holdfast,
holdfast-verify and holdfast-vet also contain the Go standard library (std) and these modules.
`

// noticesText is that file's content.
func noticesText(parts []part) []byte {
	var out strings.Builder
	out.WriteString(noticesHead)
	for _, p := range parts {
		for _, file := range p.terms {
			fmt.Fprintf(&out, "\n%s\n%s/%s\n%s\n\n%s\n",
				rule, p, file.name, rule, strings.TrimSpace(plain(file.data)))
		}
	}
	return []byte(out.String())
}

var rule = strings.Repeat("=", 80)

// plain is a text as Debian and a terminal read it: UTF-8, with ends of lines as in Unix.
func plain(text []byte) string {
	return strings.ToValidUTF8(strings.ReplaceAll(string(text), "\r\n", "\n"), "?")
}

package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/mod/sumdb/dirhash"

	"github.com/holdfast-go/holdfast/internal/assert"
)

// read is the text of a file.
func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	assert.Must(t, err)
	return string(text)
}

// here is what the go command of these tests builds with.
var here = sync.OnceValues(func() (origin, error) {
	return (&packager{goTool: "go", source: ".."}).origin(context.Background())
})

// cached puts a module into a module cache of its own, and returns the cache and the module as a binary names it.
func cached(t *testing.T, files map[string]string) (origin, part) {
	t.Helper()
	o := origin{cache: t.TempDir(), root: filepath.Join(t.TempDir(), "go"), release: "1.26.8"}
	p := part{path: "example.org/Upper/case", version: "v1.2.0"}
	dir := filepath.Join(o.cache, "example.org", "!upper", "case@v1.2.0")
	for name, text := range files {
		assert.Must(t, write(filepath.Join(dir, filepath.FromSlash(name)), []byte(text), 0o644))
	}
	var err error
	p.sum, err = dirhash.HashDir(dir, p.String(), dirhash.Hash1)
	assert.Must(t, err)
	return o, p
}

// bsd is a text of the licence that Go has, with another holder.
func bsd(t *testing.T, holder string) string {
	t.Helper()
	from, err := here()
	assert.Must(t, err)
	text := strings.Replace(read(t, filepath.Join(from.root, "LICENSE")), "The Go Authors", holder, 1)
	assert.Contains(t, text, holder)
	return text
}

func TestTheTermsOfAModuleAreFound(t *testing.T) {
	apache := read(t, "../LICENSE")
	o, p := cached(t, map[string]string{
		"LICENSE.txt": bsd(t, "Ann"), "NOTICE": "Ann's work\n", "a/Licence-Apache": apache,
		"license.go": "package license\n", "a/testdata/LICENSE": "a sample\n", "README.md": "see LICENSE\n",
	})
	list, err := o.licensed([]part{p, {path: ours, version: "v0.1.0", licence: ourLicence}})
	assert.Must(t, err)
	var names []string
	for _, file := range list[0].terms {
		names = append(names, file.name)
	}
	assert.EqualSlices(t, names, []string{"LICENSE.txt", "NOTICE", "a/Licence-Apache"}, "files with terms")
	assert.Equal(t, list[0].licence, "Apache-2.0 AND BSD-3-Clause", "licence")
	assert.Equal(t, len(list[1].terms), 0, "terms of a module of this repository")

	all := string(noticesText(list))
	for _, want := range []string{
		"\nexample.org/Upper/case@v1.2.0/NOTICE\n", "\nAnn's work\n",
		strings.TrimSpace(apache), strings.TrimSpace(bsd(t, "Ann")),
	} {
		assert.Contains(t, all, want)
	}
	assert.False(t, strings.Contains(all, ours), "the modules of this repository are under LICENSE")
}

// What is not allowed to be distributed is not packed.
func TestAModuleThatCannotBeLicensedIsRefused(t *testing.T) {
	for _, c := range []struct {
		files map[string]string
		want  string
	}{
		{map[string]string{"a.go": "package a\n"}, "has no file with a licence"},
		{map[string]string{"NOTICE": "Ann's work\n", "PATENTS": "none\n"}, "has no file with a licence"},
		{map[string]string{"a/LICENSE": bsd(t, "Ann")}, "has no file with a licence"},
		{map[string]string{"LICENSE": "Ask Ann.\n"}, "LICENSE: the licence is unknown"},
		{map[string]string{"LICENSE": bsd(t, "Ann") + strings.Repeat("But ask Ann. ", 50)}, "the licence is unknown"},
		{map[string]string{"LICENSE": bsd(t, "Ann"), "a/COPYING": "Ask Ann.\n"}, "a/COPYING: the licence is unknown"},
	} {
		o, p := cached(t, c.files)
		_, err := o.licensed([]part{p})
		assert.MustTrue(t, err != nil, "%v: accepted", c.files)
		assert.Contains(t, err.Error(), "example.org/Upper/case@v1.2.0: ")
		assert.Contains(t, err.Error(), c.want)
	}
}

func TestOnlyPermittedLicencesAreLinked(t *testing.T) {
	text := bsd(t, "Ann")
	delete(permitted, "BSD-3-Clause")
	defer func() { permitted["BSD-3-Clause"] = "BSD-3-clause" }()
	_, err := identify([]item{{"LICENSE", []byte(text), 0o644}})
	assert.MustTrue(t, err != nil, "a licence that is not permitted is accepted")
	assert.Contains(t, err.Error(), "BSD-3-Clause is not among the permitted licences")
}

func TestTheTermsAreOfWhatWasLinked(t *testing.T) {
	o, p := cached(t, map[string]string{"LICENSE": bsd(t, "Ann")})
	assert.Must(t, write(filepath.Join(o.cache, "example.org", "!upper", "case@v1.2.0", "LICENSE"), []byte("x"), 0o644))
	_, err := o.licensed([]part{p})
	assert.True(t, err != nil && strings.Contains(err.Error(), "other files than the binary names"), "%v", err)
	p.version = "v1.3.0"
	assert.True(t, assert.Err(o.licensed([]part{p})) != nil, "a module that is not in the cache is accepted")

	std := part{path: standard, version: "1.26.8"}
	assert.Must(t, write(filepath.Join(o.root, "LICENSE"), []byte(bsd(t, "Ann")), 0o644))
	assert.Must(t, write(filepath.Join(o.root, "src", "LICENSE"), []byte("x"), 0o644))
	list, err := o.licensed([]part{std})
	assert.True(t, err == nil && list[0].licence == "BSD-3-Clause" && len(list[0].terms) == 1, "%v, %v", list, err)
	std.version = "1.27.0"
	_, err = o.licensed([]part{std})
	assert.True(t, err != nil && strings.Contains(err.Error(), "release 1.26.8"), "%v", err)
}

func TestThisRepositoryHasTheLicenceThatItNames(t *testing.T) {
	got, err := identify([]item{{"LICENSE", []byte(read(t, "../LICENSE")), 0o644}})
	assert.True(t, err == nil && got == ourLicence, "%q, %v", got, err)
}

// fields are the fields of Debian's file copyright, paragraph by paragraph.
func fields(t *testing.T, text string) []map[string]string {
	t.Helper()
	var list []map[string]string
	for paragraph := range strings.SplitSeq(strings.TrimSuffix(text, "\n"), "\n\n") {
		found, name := map[string]string{}, ""
		for line := range strings.SplitSeq(paragraph, "\n") {
			if rest, more := strings.CutPrefix(line, " "); more && name != "" {
				assert.True(t, strings.TrimSpace(rest) != "", "an empty line in %s", name)
				found[name] += "\n" + rest
				continue
			}
			var value string
			var ok bool
			name, value, ok = strings.Cut(line, ":")
			assert.MustTrue(t, ok && regexp.MustCompile(`^[A-Z][A-Za-z-]+$`).MatchString(name), "not a field: %q", line)
			found[name] = strings.TrimSpace(value)
		}
		list = append(list, found)
	}
	return list
}

func TestDebiansCopyrightNamesEachPart(t *testing.T) {
	o, p := cached(t, map[string]string{
		"LICENSE": strings.ReplaceAll("\n"+bsd(t, "Ann"), "\n", "\r\n"),
		"NOTICE":  "Ann's\n\n\x0cwork\n", "a/LICENSE": read(t, "../LICENSE"),
	})
	list, err := o.licensed([]part{p, {path: ours, version: "v0.1.0", licence: ourLicence}})
	assert.Must(t, err)
	made := debianCopyright(list)
	assert.Equal(t, made.name, "copyright", "its name")
	got := fields(t, string(made.data))
	assert.MustTrue(t, len(got) == 3, "%d paragraphs, want the head, ours, and one of the module", len(got))
	assert.Equal(t, got[0]["Format"], "https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/", "the format")
	assert.Equal(t, got[1]["Files"], "*", "ours")
	assert.Equal(t, got[2]["Files"], "example.org/Upper/case@v1.2.0/*", "the module's files")
	assert.Equal(t, got[2]["Copyright"], "2009 Ann.\n2026 The Holdfast Authors", "the module's holders")
	name, text, _ := strings.Cut(got[2]["License"], "\n")
	assert.Equal(t, name, "Apache-2.0 and BSD-3-clause", "the module's licence")
	assert.Contains(t, text, "NOTICE:\n.\nAnn's\n.\n\x0cwork")
	assert.Contains(t, text, "a/LICENSE:\n.\nOn Debian systems")
	assert.Contains(t, strings.ReplaceAll(text, "\n.\n", "\n\n"), strings.TrimSpace(bsd(t, "Ann")))
	assert.False(t, strings.Contains(text, "\r"), "ends of lines of Windows")

	unsigned := part{path: "example.org/b", version: "v1.0.0"}
	assert.EqualSlices(t, holders(unsigned), []string{"the authors of example.org/b"}, "nobody signed")
}

// component is what the tests read of one in a bill.
type listed struct {
	Type, Name, Version, PURL string
	Licenses                  []struct {
		License    struct{ ID string }
		Expression string
	}
	Hashes     []struct{ Alg, Content string }
	Properties []struct{ Name, Value string }
}

// components reads a bill.
func components(t *testing.T, text []byte) map[string]listed {
	t.Helper()
	var bill struct{ Components []listed }
	assert.Must(t, json.Unmarshal(text, &bill))
	list := map[string]listed{}
	for _, c := range bill.Components {
		list[c.Name+" "+c.Version] = c
	}
	return list
}

// The program of this test is one with modules, of which some are those of packaging itself.
func TestTheBillHasLicencesAndHashes(t *testing.T) {
	program, err := os.Executable()
	assert.Must(t, err)
	binaries := []item{{"holdfast", []byte(read(t, program)), 0o755}}
	parts, err := linked("0.1.0", binaries)
	assert.Must(t, err)
	parts = slices.DeleteFunc(parts, func(p part) bool {
		return p.path != standard && !strings.HasPrefix(p.path, "golang.org/x/mod") && !strings.HasPrefix(p.path, ours)
	})
	from, err := here()
	assert.Must(t, err)
	parts, err = from.licensed(parts)
	assert.Must(t, err)
	text, err := bill("holdfast_0.1.0_linux_amd64", "0.1.0", date, binaries, parts)
	assert.Must(t, err)

	sum := sha256.Sum256(binaries[0].data)
	for name, want := range map[string]struct{ licence, hash string }{
		"holdfast 0.1.0":           {"Apache-2.0", hex.EncodeToString(sum[:])},
		ours + "/packaging v0.1.0": {"Apache-2.0", ""},
		"std " + strings.TrimPrefix(runtime.Version(), "go"): {"BSD-3-Clause", ""},
	} {
		c, found := components(t, text)[name]
		assert.MustTrue(t, found && len(c.Licenses) == 1, "%s: %+v", name, c)
		assert.Equal(t, c.Licenses[0].License.ID, want.licence, "%s: the licence", name)
		assert.Equal(t, len(c.Hashes), len(want.hash)/64, "%s: hashes", name)
		if want.hash != "" {
			assert.Equal(t, c.Hashes[0].Content, want.hash, "%s: the hash", name)
		}
	}
	mod := slices.IndexFunc(parts, func(p part) bool { return p.path == "golang.org/x/mod" })
	assert.MustTrue(t, mod >= 0, "no golang.org/x/mod among %v", parts)
	c := components(t, text)["golang.org/x/mod "+parts[mod].version]
	assert.MustTrue(t, len(c.Hashes) == 1 && len(c.Properties) == 1, "%+v", c)
	assert.Equal(t, c.Hashes[0].Alg, "SHA-256", "the algorithm")
	assert.True(t, regexp.MustCompile(`^[0-9a-f]{64}$`).MatchString(c.Hashes[0].Content), "%s", c.Hashes[0].Content)
	assert.Equal(t, c.Properties[0].Value, parts[mod].sum, "go.sum")
}

func TestWhatTheBillSaysOfAPart(t *testing.T) {
	// SHA-256 of the empty text, as go.sum writes it, and in hexadecimal digits.
	const coded, digits = "h1:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=",
		"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
	c, err := component(part{path: "example.org/a", version: "v1.0.0", sum: coded, licence: "ISC AND MIT"})
	assert.Must(t, err)
	assert.Equal(t, c.PackageURL, "pkg:golang/example.org/a@v1.0.0", "the URL")
	assert.Equal(t, (*c.Hashes)[0].Value, digits, "the hash")
	assert.Equal(t, (*c.Licenses)[0].Expression, "ISC AND MIT", "the licences")
	for _, bad := range []string{"h2:" + coded[3:], "h1:", "h1:!", coded[:20]} {
		_, err := component(part{path: "example.org/a", version: "v1.0.0", sum: bad})
		assert.True(t, err != nil && strings.Contains(err.Error(), "example.org/a@v1.0.0"), "%q: %v", bad, err)
	}
	c, err = component(part{path: ours, version: "v0.1.0", commit: "abc", licence: ourLicence})
	assert.Must(t, err)
	assert.True(t, c.Hashes == nil && (*c.Properties)[0].Value == "abc", "%+v", c)
}

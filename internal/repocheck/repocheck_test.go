package repocheck

import (
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/assert"
)

// The tests in this file check the repository itself.
//
// docs/guarantees.md has this form, on which TestGuaranteesHaveTests relies:
//
//   - A guarantee begins where G and its number are the first word of a table
//     row, a bullet or a heading: "| G1 | …", "- **G1** …", "### G1. …".
//   - A table row ends with its line. What a bullet or heading begins goes on
//     to the next guarantee or heading.
//   - It has, in backquotes, the name of at least one test function:
//     `TestNoTwoHolders`, `verify.TestNoTwoHolders`, `TestStore/hand-over`.
//     A fuzz target, an example or a benchmark counts as well.
//   - The same guarantee may be stated at several places (a table on top, a
//     section below); a test at one of them is enough.
//   - Every test name in backquotes on the page exists, wherever it is.

// tree is the repository: paths relative to its root, with their contents.
type tree map[string]string

// readTree reads the repository. Binary files have no content: only that they exist counts.
func readTree(t *testing.T) tree {
	t.Helper()
	files := readAll(t)
	for name, text := range files {
		if strings.Contains(text, "\x00") {
			files[name] = ""
		}
	}
	return files
}

// readAll reads every file that git tracks or would track. Without git or a clone, it
// reads every file except what make builds.
//
// The walk comes first, and git only filters it: go test caches a result by the files and
// directories that the test opened, and does not see those that git opened.
func readAll(t *testing.T) tree {
	t.Helper()
	root := filepath.Join("..", "..")
	known := gitFiles(root)
	files := tree{}
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		switch {
		case d.IsDir() && (rel == ".git" || rel == "bin" || rel == "bench/results"):
			return fs.SkipDir
		case !d.Type().IsRegular() || known != nil && !known[rel]:
			return nil
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		files[rel] = string(text)
		return nil
	})
	assert.Must(t, err)
	_, ok := files["internal/repocheck/repocheck_test.go"]
	assert.MustTrue(t, ok, "read %d files, and this test is not among them", len(files))
	return files
}

// gitFiles returns what git tracks or would track, or nil if git cannot tell.
func gitFiles(root string) map[string]bool {
	out, err := exec.Command("git", "-C", root, "ls-files", "-z", "--cached", "--others", "--exclude-standard").Output()
	if err != nil || len(out) == 0 {
		return nil
	}
	known := map[string]bool{}
	for name := range strings.SplitSeq(string(out), "\x00") {
		known[name] = true
	}
	return known
}

// each runs check over the files whose names end in suffix. There must be some, because a
// check of nothing proves nothing.
func (files tree) each(t *testing.T, suffix string, check func(file, text string) []Problem) {
	t.Helper()
	seen := 0
	for file, text := range files {
		if strings.HasSuffix(file, suffix) {
			seen++
			report(t, check(file, text))
		}
	}
	assert.True(t, seen != 0, "there is no %s file", suffix)
}

func report(t *testing.T, problems []Problem) {
	t.Helper()
	for _, p := range problems {
		t.Error(p)
	}
}

func TestGoFilesKeepTheLimits(t *testing.T) {
	readTree(t).each(t, ".go", GoFile)
}

func TestNothingHeavyIsCommitted(t *testing.T) {
	readAll(t).each(t, "", func(file, text string) []Problem { return Weight(file, []byte(text)) })
}

func TestNoUnfinishedWork(t *testing.T) {
	readTree(t).each(t, "", Markers)
}

func TestNoMachinePaths(t *testing.T) {
	readTree(t).each(t, "", MachinePaths)
}

func TestMarkdownLinksLead(t *testing.T) {
	files := readTree(t)
	there := map[string]bool{}
	for file := range files {
		for ; file != "."; file = path.Dir(file) {
			there[file] = true
		}
	}
	files.each(t, ".md", func(file, text string) []Problem {
		return Links(file, text, func(target string) bool { return there[target] })
	})
}

func TestPagesNameCommandsThatExist(t *testing.T) {
	files := readTree(t)
	delete(files, "CHANGELOG.md") // it also speaks of versions that had others
	files.each(t, ".md", func(file, text string) []Problem { return Commands(file, text, files["Makefile"]) })
}

func TestWorkflowsPinTheirActions(t *testing.T) {
	actions := 0
	for file, text := range readTree(t) {
		ext := path.Ext(file)
		if strings.HasPrefix(file, ".github/") && (ext == ".yml" || ext == ".yaml") {
			report(t, Pinned(file, text))
			actions += strings.Count(text, "uses:")
		}
	}
	assert.True(t, actions > 0, "no workflow uses an action: what was read?")
}

func TestScriptsHaveTranscriptsAndAreOnTheirPage(t *testing.T) {
	texts, files := map[string]string{}, readTree(t)
	for file, text := range files {
		if strings.HasPrefix(file, "script/") {
			texts[file] = text
		}
		if path.Dir(file) == "script" && path.Ext(file) == ".lua" && file != "script/record.lua" {
			assert.True(t, strings.Contains(files["docs/protocol.md"], "(../"+file+")"),
				"docs/protocol.md has no link to %s", file)
		}
	}
	report(t, Transcripts(texts))
}

func TestWorkspaceIsComplete(t *testing.T) {
	files := readTree(t)
	var modules []string
	mods := map[string]string{}
	for file, text := range files {
		if path.Base(file) == "go.mod" && !strings.Contains(file, "testdata/") {
			modules = append(modules, path.Dir(file))
			mods[file] = text
		}
	}
	report(t, Workspace(files["go.work"], modules))
	delete(mods, "store/goredis/go.mod") // users choose, from the first version without a defect on
	report(t, OneVersion(mods))
	report(t, NoRequire("go.mod", files["go.mod"]))
}

func TestTheToolUsesWhatIsPublic(t *testing.T) {
	texts := map[string]string{}
	for file, text := range readTree(t) {
		if path.Ext(file) == ".go" {
			texts[file] = text
		}
	}
	report(t, ToolImports(texts))
}

func TestGuaranteesHaveTests(t *testing.T) {
	const page = "docs/guarantees.md"
	files := readTree(t)
	if _, ok := files[page]; !ok {
		return // there are no guarantees yet
	}
	tests := map[string]bool{}
	for file, text := range files {
		for _, name := range TestFuncs(file, text) {
			tests[name] = true
		}
	}
	report(t, Guarantees(page, files[page], tests))
}

// The functions that users call, in the packages that they import. The library calls the
// methods of a store.
func TestEveryPublicCallHasAnExample(t *testing.T) {
	packages := map[string]map[string]string{}
	for _, dir := range []string{
		".", "compat/bridge", "compat/redisson", "fence", "fence/httpfence", "fence/objectfence", "fence/redisfence",
		"fence/s3fence", "fence/sqlfence",
		"integrate/certmagiclock", "integrate/cronlock", "integrate/gocronlock", "integrate/leaderelection",
		"integrate/locker",
		"memstore", "quorum", "store", "store/goredis", "store/rueidis",
	} {
		packages[dir] = map[string]string{}
	}
	seam := map[string]bool{}
	for file, text := range readTree(t) {
		if path.Ext(file) != ".go" {
			continue
		}
		if files, ok := packages[path.Dir(file)]; ok {
			files[file] = text
		}
		if path.Dir(file) == "store" {
			for _, name := range InterfaceMethods(file, text) {
				seam[name] = true
			}
		}
	}
	for dir, files := range packages {
		assert.True(t, len(files) != 0, "%s has no Go files", dir)
		called := seam
		if dir == "." {
			called = nil
		}
		report(t, Examples(files, called))
	}
}

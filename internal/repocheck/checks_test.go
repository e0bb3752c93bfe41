package repocheck

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/assert"
)

// The tests in this file test the checks, each with good and with bad input.

// want compares problems with the expected ones, in any order. Each expected one is a
// part of the text of a problem.
func want(t *testing.T, got []Problem, parts ...string) {
	t.Helper()
	if len(got) != len(parts) {
		t.Errorf("got %d problems, want %d: %q", len(got), len(parts), got)
		return
	}
	for _, part := range parts {
		found := false
		for _, p := range got {
			found = found || strings.Contains(p.String(), part)
		}
		assert.True(t, found, "no problem contains %q: %q", part, got)
	}
}

func TestProblemNamesItsPlace(t *testing.T) {
	for _, c := range []struct {
		problem Problem
		want    string
	}{
		{Problem{"a.go", 7, "is odd"}, "a.go:7: is odd"},
		{Problem{"a.go", 0, "is odd"}, "a.go: is odd"},
	} {
		assert.Equal(t, c.problem.String(), c.want, "the text")
	}
}

func TestMarkers(t *testing.T) {
	mark := "TO" + "DO"
	want(t, Markers("a.go", "x := 1\n// "+mark+": more\n"), "a.go:2: \""+mark)
	want(t, Markers("a.go", "ctx := context."+mark+"()\n"), "a.go:1")
	want(t, Markers("a.md", "FIX"+"ME and XX"+"X\n"), "FIX"+"ME", "XX"+"X")
	want(t, Markers("a.go", "mktemp XX"+"XXXX, MAS"+mark+"N, to do\n"))
}

func TestMachinePaths(t *testing.T) {
	home := "/ho" + "me/ann"
	want(t, MachinePaths("a.md", "see\n`"+home+"/x`"), "a.md:2: \""+home)
	want(t, MachinePaths("a.md", home), "a.md:1")
	want(t, MachinePaths("a.sh", "cd=/wo"+"rk/main"), "a.sh:1")
	want(t, MachinePaths("a.sh", "cat /tmp/ba"+"sh_jobs"), "a.sh:1")
	want(t, MachinePaths("a.md", "example.com/wo"+"rk/x go.wo"+"rk/x ./ho"+"me/x /tmp/x /etc/hosts"))
}

func TestWeight(t *testing.T) {
	full := strings.Repeat("x\n", MaxFileBytes/2)
	want(t, Weight("a.md", []byte("# Text\n")))
	want(t, Weight("a.md", []byte(full)))
	want(t, Weight("a.jsonl", []byte(full+"x")), "a.jsonl: has 300001 bytes")
	want(t, Weight("a.png", []byte("\x89PNG\r\n\x1a\n\x00"+full)))
	want(t, Weight("bench/etcd", []byte("\x7fELF\x02\x01\x01")), "bench/etcd: is an ELF program")
	want(t, Weight("a.exe", []byte("MZ\x90")), "is a Windows program")
	want(t, Weight("a.md", []byte("MZ is text")))
	want(t, Weight("a", []byte("\xcf\xfa\xed\xfe")), "is a macOS program")
	want(t, Weight("a.tgz", []byte("\x1f\x8b\x08x")), "is a gzip archive")
	want(t, Weight("a.jar", []byte("PK\x03\x04x")), "is a zip archive")
	want(t, Weight("a.deb", []byte("!<arch>\ndebian")), "is a package")
	want(t, Weight("a.tar", []byte(strings.Repeat("x", 257)+"ustar")), "is a tar archive")
	want(t, Weight("a.dat", []byte("x\x00y")), "NUL bytes")
	want(t, Weight("a.txt", nil))
}

func TestPinned(t *testing.T) {
	commit := strings.Repeat("0a", 20)
	want(t, Pinned("ci.yml", "steps:\n  - uses: a/b@"+commit+" # v7.0.1\n    name: x\n  - name: y\n    uses: a/b/c@"+
		commit+"  # v1\n  - uses: ./of/ours\n  - run: echo # uses: a/b@v1\n"))
	want(t, Pinned("ci.yml", "steps:\n  - uses: a/b@v5\n"), "ci.yml:2: uses a/b@v5, which is not pinned")
	for _, bad := range []string{
		"a/b@main", "a/b", "a/b@" + commit[:39], "a/b@" + commit + "0", "a/b@v1 # " + commit, "docker://a/b:1",
		`"a/b@v1"`, "$" + "{{ x }}",
	} {
		want(t, Pinned("ci.yml", "  - uses: "+bad+"\n"), "not pinned by a commit")
		want(t, Pinned("ci.yml", "    \"uses\" : "+bad+"\n"), "not pinned by a commit")
	}
	want(t, Pinned("ci.yml", "  - {name: x, uses: a/b@v1}\n"), "not pinned by a commit")
	for _, bad := range []string{"", " # latest", " # v"} {
		want(t, Pinned("ci.yml", "- uses: a/b@"+commit+bad+"\n"), "uses b without the release")
	}
}

func TestTranscripts(t *testing.T) {
	want(t, Transcripts(map[string]string{
		"script/take.lua":   "--include record\nreturn 1\n",
		"script/take.txt":   "",
		"script/record.lua": "local x = 1\n",
	}))
	want(t, Transcripts(map[string]string{
		"script/take.lua":   "return 1\n",
		"script/record.lua": "-- nobody includes this\n",
		"script/record.txt": "",
	}), "script/take.lua: has no golden transcript take.txt")
}

func TestWorkspace(t *testing.T) {
	const block = "go 1.26\n\nuse (\n\t.\n\t./bench // measured\n\t\"./store/goredis\"\n)\n\nreplace a => ./b\n"
	want(t, Workspace(block, []string{".", "bench", "store/goredis"}))
	want(t, Workspace(block, []string{".", "bench", "verify"}),
		"does not use the module in verify", "go.work:6: uses store/goredis, which has no go.mod")
	want(t, Workspace("use .\nuse ./bench\n", []string{".", "bench"}))
	want(t, Workspace("", []string{"."}), "does not use the module in .")
}

func TestNoRequire(t *testing.T) {
	want(t, NoRequire("go.mod", "module m\n\ngo 1.25.0\n"))
	want(t, NoRequire("go.mod", "module m\n\nrequire (\n\tx v1\n)\nrequire y v1\n"), "go.mod:3", "go.mod:6")
}

func TestToolImports(t *testing.T) {
	imports := func(dirs ...string) string {
		text := "package x\n"
		for _, dir := range dirs {
			text += "import _ \"" + module + "/" + dir + "\"\n"
		}
		return text
	}
	all := slices.Collect(maps.Keys(toolShares))
	want(t, ToolImports(map[string]string{
		"cmd/holdfast/a.go":          imports(append(all, "cmd/holdfast/internal/say", "store")...),
		"cmd/holdfast/a_test.go":     imports("internal/redistest"),
		"internal/clock/a_test.go":   imports("internal/wire"),
		"internal/request/a.go":      imports("internal/wire"),
		"cmd/holdfast/testdata/a.go": "nonsense",
	}))
	want(t, ToolImports(map[string]string{
		"cmd/holdfast/a.go":            imports(all...),
		"cmd/holdfast/b.go":            imports("internal/redistest"),
		"cmd/holdfast/b_test.go":       imports("internal/wire"),
		"cmd/holdfast/internal/x/b.go": imports("store/internal/x", "internal/clock"),
		"internal/lockjson/a.go":       imports("internal/wire"),
	}),
		"cmd/holdfast/b.go:2: imports internal/redistest", "cmd/holdfast/b_test.go:2: imports internal/wire",
		"cmd/holdfast/internal/x/b.go:2: imports store/internal/x",
		"internal/lockjson/a.go:2: imports internal/wire, but the tool shares this package")
	want(t, ToolImports(map[string]string{"cmd/holdfast/a.go": imports(all[1:]...)}),
		"lists "+all[0]+", and the tool does not use it")
}

func TestOneVersion(t *testing.T) {
	mods := map[string]string{
		"a/go.mod": "module example.org/a\n\nrequire (\n\texample.org/x v1.2.0\n" +
			"\texample.org/y v1.0.0 // indirect\n)\n",
		"b/go.mod": "module example.org/b\n\nrequire example.org/y v1.1.0\n",
		"c/go.mod": "module example.org/c\n\nrequire example.org/x v1.2.0\n",
	}
	want(t, OneVersion(mods))
	mods["c/go.mod"] = "module example.org/c\n\nrequire example.org/x v1.1.9\n"
	want(t, OneVersion(mods), "c/go.mod:3: requires example.org/x v1.1.9, and a/go.mod requires v1.2.0")
}

// source is a Go file with one function of n lines, braces included.
func source(name string, n int) string {
	return "package p\n\nfunc " + name + "() {\n" + strings.Repeat("\tx()\n", n-2) + "}\n"
}

func TestGoFileLimits(t *testing.T) {
	want(t, GoFile("a.go", source("f", MaxFuncLines)))
	want(t, GoFile("a.go", source("f", MaxFuncLines+1)), "a.go:3: func f has 71 lines")
	want(t, GoFile("a_test.go", source("TestF", MaxTestFuncLines)))
	want(t, GoFile("a_test.go", source("TestF", MaxTestFuncLines+1)), "func TestF has 101 lines")

	full := "package p\n" + strings.Repeat("\n", MaxFileLines-1)
	want(t, GoFile("a.go", full))
	want(t, GoFile("a.go", full+"\n"), "has 1001 lines")
	want(t, GoFile("a.go", "// Code generated by x. DO NOT EDIT.\n\n"+full))

	comment := func(columns int) string { return "package p\n\n// " + strings.Repeat("ä", columns-3) + "\n" }
	want(t, GoFile("a.go", comment(MaxColumns)))
	want(t, GoFile("a.go", comment(MaxColumns+1)), "a.go:3: has 121 columns")
	want(t, GoFile("a.go", "package p\n\n// https://example.com/"+strings.Repeat("x", MaxColumns)+"\n"))
	want(t, GoFile("a.go", "package p\n\nfunc f() {\n\t// "+strings.Repeat("x", MaxColumns-6)+"\n}\n"), "a.go:4")

	want(t, GoFile("a.go", "package\n"), "does not parse")
}

func TestGoFileCalls(t *testing.T) {
	body := func(imports, call string) string {
		return fmt.Sprintf("package p\n\nimport %s\n\nfunc f() {\n\t%s\n}\n", imports, call)
	}
	want(t, GoFile("a_test.go", body(`"time"`, "time.Sleep(1)")), "a_test.go:6: sleeps")
	want(t, GoFile("a_test.go", body(`clock "time"`, "clock.Sleep(1)")), "sleeps")
	want(t, GoFile("a_test.go", body(`"example.com/time"`, "time.Sleep(1)")))
	want(t, GoFile("a_test.go", body(`"time"`, "// time.Sleep(1)")))
	want(t, GoFile("a.go", body(`"time"`, "time.Sleep(1)")))
	const both = "(\n\t\"testing/synctest\"\n\t\"time\"\n)"
	want(t, GoFile("a_bubble_test.go", body(both, "time.Sleep(1)")))
	want(t, GoFile("a_bubble_test.go", body(`"time"`, "time.Sleep(1)")), "sleeps")
	want(t, GoFile("a_test.go", body(both, "time.Sleep(1)")), "sleeps")
	for _, method := range []string{"Skip", "Skipf", "SkipNow"} {
		want(t, GoFile("a_test.go", body(`"testing"`, "t."+method+"()")), "skips")
		want(t, GoFile("suite.go", body(`"testing"`, "tb."+method+"()")), "skips")
	}
	want(t, GoFile("a_test.go", body(`"testing"`, "scanner.Skip()")))
}

func TestTestFuncs(t *testing.T) {
	const text = "func TestA(t *testing.T) {}\nfunc FuzzB(f *testing.F) {}\nfunc helper() {}\n// func TestC(\n"
	assert.Equal(t, strings.Join(TestFuncs("a_test.go", text), " "), "TestA FuzzB", "the tests")
	got := TestFuncs("a.go", text)
	assert.True(t, got == nil, "got %q from a file that is no test", got)
}

func TestLinks(t *testing.T) {
	exists := func(file string) bool {
		return file == "README.md" || file == "docs" || file == "docs/a b.md" || file == "docs/faults.md"
	}
	good := []string{
		"[up](../README.md), [dir](.), [two](faults.md#x) [three](a%20b.md)",
		"[out](https://example.com/x.md) [mail](mailto:a@example.com) [here](#below)",
		"![shot](faults.md \"a title\") and [angle](<faults.md>)",
		"[name]: faults.md 'a title'",
		"`[no](link.md)` and a [word](s) that",
	}
	want(t, Links("docs/page.md", strings.Join(good[:4], "\n"), exists))
	want(t, Links("docs/page.md", good[4], exists), "links to s, which does not exist")
	fenced := "```go\n[no](link.md)\n```\n[yes](link.md)\n"
	want(t, Links("docs/page.md", fenced, exists), "docs/page.md:4: links to link.md")
	want(t, Links("docs/page.md", "[a](../../x.md)", exists), "outside")
	want(t, Links("docs/page.md", "[a](/README.md)", exists), "absolute")
	want(t, Links("docs/page.md", "[a]: gone.md", exists), "gone.md")
	want(t, Links("README.md", "[a](faults.md) [b](docs/)", exists), "faults.md")
}

func TestCommands(t *testing.T) {
	const makefile = "GO ?= go\n\ntest: bin/x ## help\n\tgo test\ntest-all:\n"
	want(t, Commands("a.md", "Run `make test`, `make test-all MODULES=x` or make gone.\n", makefile))
	want(t, Commands("a.md", "Run\n`make gone` or `make test-al`.\n", makefile),
		"a.md:2: names make gone", "a.md:2: names make test-al,")
}

func TestGuarantees(t *testing.T) {
	tests := map[string]bool{"TestA": true, "TestB": true, "FuzzC": true}
	for _, good := range []string{
		"| no | claim | test |\n|---|---|---|\n" +
			"| G1 | one holder | `TestA` |\n| **G2** | order | `verify.TestB/dead waiter` |\n",
		"- G1: one holder.\n  See `TestA`.\n- **G2** order: `FuzzC`\n",
		"### G1. One holder\n\nText.\n\n- `TestA`\n\n### G2\n`TestB`\n",
		"| [G1](#g1) | one holder |\n\n## G1 one holder\n\nShown by `TestA`.\n",
	} {
		want(t, Guarantees("g.md", good, tests))
	}
	for _, bad := range []struct{ text, problem string }{
		{"| G1 | one holder | TestA |\n", "g.md:1: G1 names no test"},
		{"| G1 | one holder | |\n\nLater, `TestA` is named.\n", "g.md:1: G1 names no test"},
		{"- G1 one holder\n\n## Other\n\n`TestA`\n", "g.md:1: G1 names no test"},
		{"- G1 `TestA`\n- G2 order\n- G3 `TestB`\n", "g.md:2: G2 names no test"},
		{"- G1 `TestA`, `TestGone`\n", "g.md:1: cites TestGone"},
		{"Text, and `TestA`.\n", "states no guarantee"},
		{"```\n- G1 `TestA`\n```\n", "states no guarantee"},
	} {
		want(t, Guarantees("g.md", bad.text, tests), bad.problem)
	}
	want(t, Guarantees("g.md", "- G1 `TestGone`\n", tests), "cites TestGone", "G1 names no test")
}

func TestExamples(t *testing.T) {
	files := map[string]string{
		"a.go": "package a\n\nfunc F() {}\nfunc f() {}\ntype T struct{}\nfunc (t *T) M() {}\n" +
			"func (t T) N() {}\nfunc (t T) n() {}\nfunc (T) String() string { return \"\" }\n" +
			"type u int\nfunc (u) M() {}\n",
		"a_test.go": "package a\n\nfunc ExampleT_M() {}\nfunc ExampleF_twice() {}\nfunc TestN() {}\nfunc Helper() {}\n",
		"a.lua":     "return 1\n",
	}
	want(t, Examples(files, nil), "a.go:7: has no ExampleT_N")
	want(t, Examples(files, map[string]bool{"N": true}))
	files["a_test.go"] = "package a\n"
	want(t, Examples(files, nil), "ExampleF", "ExampleT_M", "ExampleT_N")
	files["a.go"] = "pack age"
	want(t, Examples(files, nil), "does not parse")
}

func TestInterfaceMethods(t *testing.T) {
	got := InterfaceMethods("a.go", "package a\n\ntype I interface {\n\terror\n\tM()\n\tN(int) int\n}\n")
	assert.Equal(t, strings.Join(got, " "), "M N", "got %q", got)
}

package exit

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/assert"
)

// table is the table of exit codes in the form in which the others are compared to it.
func table() (rows []string) {
	for _, m := range meanings {
		rows = append(rows, m.number()+" "+m.name+" "+m.text)
	}
	return rows
}

func readDoc(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile("../../../../" + name)
	assert.Must(t, err)
	return string(text)
}

func TestTheDocumentsHaveTheExitCodesOfTheTool(t *testing.T) {
	_, section, _ := strings.Cut(readDoc(t, "docs/shell.md"), "\n## Exit codes of the tool\n")
	section, _, _ = strings.Cut(section, "\n## ")
	row := regexp.MustCompile(`(?m)^\| ([0-9+n]+) \| (\S+) \| (.*) \|$`)
	var rows []string
	for _, cells := range row.FindAllStringSubmatch(strings.ReplaceAll(section, "`", ""), -1) {
		rows = append(rows, strings.Join(cells[1:], " "))
	}
	if !slices.Equal(rows, table()) {
		t.Errorf("docs/shell.md has\n%s\nand exit.go\n%s", strings.Join(rows, "\n"), strings.Join(table(), "\n"))
	}

	_, short, found := strings.Cut(readDoc(t, "README.md"), "\nExit codes: ")
	short, _, _ = strings.Cut(short, "\n\n")
	named := regexp.MustCompile(`([0-9]+) \(([a-z-]+)\)`).FindAllStringSubmatch(short, -1)
	for _, cells := range named {
		is := func(m meaning) bool { return m.number() == cells[1] && m.name == cells[2] }
		if !slices.ContainsFunc(meanings, is) {
			t.Errorf("README.md: %s is not in the table", cells[0])
		}
	}
	assert.False(t, !found || len(named) == 0, "README.md names no exit code")
}

func TestHelpHasTheExitCodes(t *testing.T) {
	words := strings.Join(strings.Fields(Text()), " ")
	for _, row := range table() {
		assert.True(t, strings.Contains(words, row), "%q is not in\n%s", row, words)
	}
}

// Guarantee: an exit code has a name and a row in the table, and nothing ends the
// tool with another.
func TestEveryExitCodeIsInTheTable(t *testing.T) {
	source, err := os.ReadFile("exit.go")
	assert.Must(t, err)
	constants := regexp.MustCompile(`(?m)^\t(Code[A-Z]\w*) += `).FindAllStringSubmatch(string(source), -1)
	for _, c := range constants {
		if !strings.Contains(string(source), c[1]+`, "`) {
			t.Errorf("%s has no row in the table", c[1])
		}
	}
	assert.True(t, len(constants) == len(meanings), "%d constants, %d rows", len(constants), len(meanings))
	bare := regexp.MustCompile(`exit\.With\(-?\d|exit\.Silent\(-?\d|os\.Exit\(\d|Code: +-?\d`)
	rooms := 0
	assert.Must(t, fs.WalkDir(os.DirFS("../.."), ".", func(file string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") {
			return err
		}
		rooms++
		text, err := os.ReadFile(filepath.Join("../..", file))
		number := bare.Find(text)
		assert.True(t, number == nil, "%s: %s: an exit code without a name", file, number)
		return err
	}))
	assert.AtLeast(t, rooms, 40, "files of the tool")
}

func TestAnExitCodeHasAName(t *testing.T) {
	for code, want := range map[int]string{
		CodeOK: "done", CodeBusy: "busy", CodeNotFound: "not-started", CodeSignal + 15: "interrupted", 7: "",
	} {
		assert.Equal(t, NameOf(code), want, "%d", code)
	}
}

package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/holdfast-go/holdfast/internal/assert"
)

func TestEveryCommandHasAManPage(t *testing.T) {
	dir := t.TempDir()
	root := newRoot(&app{say: &printer{}})
	assert.Must(t, writeManPages(root, dir))
	macros := regexp.MustCompile(`^\.(TH|SH|PP|TP|B|BR|br|nf|fi)( |$)`)
	pages := 0
	for _, cmd := range root.Commands() {
		path := filepath.Join(dir, "man"+manSection(cmd), manName(cmd)+"."+manSection(cmd))
		text, err := os.ReadFile(path)
		if cmd.Hidden || err != nil {
			assert.False(t, cmd.Hidden == (err == nil) && cmd.Name() != "help",
				"%s: hidden %v, %v", cmd.Name(), cmd.Hidden, err)
			continue
		}
		pages++
		filled := true
		for i, line := range strings.Split(strings.TrimSpace(string(text)), "\n") {
			switch {
			case strings.HasPrefix(line, ".") && !macros.MatchString(line), strings.HasPrefix(line, "'"):
				t.Errorf("%s:%d: %q is no macro", path, i+1, line)
			case filled && (line == "" || line[0] == ' '):
				t.Errorf("%s:%d: %q would end the paragraph", path, i+1, line)
			case strings.ContainsFunc(line, func(r rune) bool { return r >= 0x80 }):
				t.Errorf("%s:%d: %q is not ASCII", path, i+1, line)
			}
			filled = line == ".fi" || filled && line != ".nf"
		}
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			assert.False(t, cmd.Runnable() && !f.Hidden && !strings.Contains(string(text), roff("--"+f.Name)),
				"%s has nothing about --%s", path, f.Name)
		})
	}
	if text, err := os.ReadFile(filepath.Join(dir, "man1", "holdfast.1")); err != nil ||
		!strings.Contains(string(text), ".BR holdfast\\-run (1)") || pages < 15 {
		t.Errorf("%d pages; holdfast.1: %v\n%s", pages, err, text)
	}
}

func TestWhatIsATableStaysOne(t *testing.T) {
	const text = "first line\nsecond -n\n\nTable:\n  a  b\n.x c\\"
	const want = "first line\nsecond \\-n\n.PP\n.nf\nTable:\n  a  b\n\\&.x c\\e\n.fi\n"
	assert.Equal(t, manText(text), want, "manText")
}

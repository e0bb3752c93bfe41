//go:build unix

package main

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/assert"
)

// make install puts the commands, a man page for each command, and the completions where a
// system looks for them. make uninstall removes them, and nothing else.
func TestMakeInstallsAndUninstalls(t *testing.T) {
	dest := t.TempDir()
	other := filepath.Join(dest, "opt/hold/bin/other")
	assert.Must(t, os.MkdirAll(filepath.Dir(other), 0o755))
	assert.Must(t, os.WriteFile(other, nil, 0o644))
	run := func(path string, args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), path, args...)
		cmd.Dir = ".."
		out, err := cmd.CombinedOutput()
		assert.MustTrue(t, err == nil, "%s %q: %v\n%s", path, args, err, out)
		return string(out)
	}
	run("make", "install", "PREFIX=/opt/hold", "DESTDIR="+dest)
	got := filesIn(t, filepath.Join(dest, "opt/hold"))
	want := []string{
		"bin/holdfast", "bin/holdfast-verify", "bin/holdfast-vet", "bin/other",
		"share/bash-completion/completions/holdfast",
		"share/fish/vendor_completions.d/holdfast.fish",
		"share/zsh/site-functions/_holdfast",
	}
	tool := filepath.Join(dest, "opt/hold/bin/holdfast")
	pages := t.TempDir()
	run(tool, "man", pages)
	for _, page := range filesIn(t, pages) { // a test of the tool says that there is one for each command
		want = append(want, "share/man/"+page)
	}
	assert.True(t, slices.Contains(want, "share/man/man1/holdfast-run.1"), "no manual of run in %q", want)
	slices.Sort(want)
	assert.True(t, slices.Equal(got, want),
		"it installed\n%s\nand not\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	assert.Contains(t, run(tool, "--version"), holdfast.Version)
	run(filepath.Join(dest, "opt/hold/bin/holdfast-verify"), "--help")
	run("go", "vet", "-vettool="+filepath.Join(dest, "opt/hold/bin/holdfast-vet"), "./internal/assert")
	for shell, file := range map[string]string{
		"bash": "bash-completion/completions/holdfast", "zsh": "zsh/site-functions/_holdfast",
		"fish": "fish/vendor_completions.d/holdfast.fish",
	} {
		text, err := os.ReadFile(filepath.Join(dest, "opt/hold/share", file))
		assert.True(t, err == nil && string(text) == run(tool, "completion", shell),
			"the completion for %s: %v", shell, err)
	}
	run("make", "uninstall", "PREFIX=/opt/hold", "DESTDIR="+dest)
	assert.EqualSlices(t, filesIn(t, filepath.Join(dest, "opt/hold")), []string{"bin/other"},
		"the files after make uninstall")
}

// filesIn are the files below a directory.
func filesIn(t *testing.T, dir string) (list []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			path, err = filepath.Rel(dir, path)
			list = append(list, filepath.ToSlash(path))
		}
		return err
	})
	assert.Must(t, err)
	return list
}

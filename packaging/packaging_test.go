package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/assert"
)

var date = time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)

func TestATarballHasOneDateAndOneOwner(t *testing.T) {
	var out bytes.Buffer
	assert.Must(t, tarball(&out, "dir", []item{{"a", []byte("A"), 0o755}, {"b/c", []byte("BC"), 0o644}}, date))
	unzipped, err := gzip.NewReader(&out)
	assert.Must(t, err)
	archive := tar.NewReader(unzipped)
	for _, want := range []struct {
		name, text string
		mode       int64
	}{{"dir/a", "A", 0o755}, {"dir/b/c", "BC", 0o644}} {
		h, err := archive.Next()
		assert.Must(t, err)
		text, err := io.ReadAll(archive)
		assert.Must(t, err)
		if h.Name != want.name || h.Mode != want.mode || string(text) != want.text || !h.ModTime.Equal(date) ||
			h.Uid != 0 || h.Uname != "root" {
			t.Errorf("%+v with %q, want %+v", h, text, want)
		}
	}
	_, err = archive.Next()
	assert.True(t, errors.Is(err, io.EOF), "after the last file: %v", err)
}

func TestAZipFileKeepsModesAndDates(t *testing.T) {
	var out bytes.Buffer
	assert.Must(t, zipped(&out, "dir", []item{{"a.exe", []byte("A"), 0o755}}, date))
	archive, err := zip.NewReader(bytes.NewReader(out.Bytes()), int64(out.Len()))
	assert.Must(t, err)
	f := archive.File[0]
	assert.True(t, len(archive.File) == 1 && f.Name == "dir/a.exe" && f.Mode() == 0o755 && f.Modified.Equal(date),
		"%+v", f.FileHeader)
}

func TestEveryFileHasAPlaceInTheDebianPackage(t *testing.T) {
	for name, want := range map[string]string{
		"holdfast":                       "/usr/bin/holdfast",
		"man/man1/holdfast-run.1":        "/usr/share/man/man1/holdfast-run.1.gz",
		"completions/bash/holdfast":      "/usr/share/bash-completion/completions/holdfast",
		"completions/zsh/_holdfast":      "/usr/share/zsh/vendor-completions/_holdfast",
		"completions/fish/holdfast.fish": "/usr/share/fish/vendor_completions.d/holdfast.fish",
		"recipes/holdfast-serve.service": "/usr/lib/systemd/system/holdfast-serve.service",
		"recipes/nightly.timer":          "/usr/share/doc/holdfast/examples/nightly.timer",
		"copyright":                      "/usr/share/doc/holdfast/copyright",
		"changelog":                      "/usr/share/doc/holdfast/changelog.gz",
		"CHANGELOG.md":                   "/usr/share/doc/holdfast/CHANGELOG.md.gz",
	} {
		assert.Equal(t, debianPlace(name), want, "%s goes to", name)
	}
}

func TestADebianPackageIsTheSameAnywhere(t *testing.T) {
	p := packager{version: "0.1.0-dev", date: date}
	items := []item{{"holdfast", []byte("program"), 0o755}, {"man/man1/holdfast.1", []byte("manual"), 0o644}}
	name, first, err := p.debian("amd64", items)
	assert.Must(t, err)
	assert.Equal(t, name, "holdfast_0.1.0~dev_amd64.deb", "its name")
	t.Setenv("TMPDIR", t.TempDir())
	t.Setenv("SOURCE_DATE_EPOCH", "1")
	_, second, err := p.debian("amd64", items)
	assert.Must(t, err)
	assert.True(t, len(first) > 0 && bytes.Equal(first, second), "%d and %d bytes differ", len(first), len(second))
}

func TestTheVersionIsTheLibrarys(t *testing.T) {
	version, err := versionOf("..")
	assert.False(t, err != nil || !strings.HasPrefix(version, "0.") && !strings.HasPrefix(version, "1."),
		"%q, %v", version, err)
	assert.True(t, assert.Err(versionOf(t.TempDir())) != nil, "a directory without Go files has a version")
}

func TestTheChecksumsNameEachFile(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"b": "", "a": "abc"} {
		assert.Must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	p := packager{out: dir, say: func(string) {}}
	assert.Must(t, p.sums([]string{"b", "a"}))
	got, err := os.ReadFile(filepath.Join(dir, checksums))
	const want = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad  a\n" +
		"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855  b\n"
	assert.True(t, err == nil && string(got) == want, "got %q, %v; want what was packed", got, err)
}

func TestWhatIsNoPlatformIsRefused(t *testing.T) {
	p := packager{out: t.TempDir()}
	err := p.run(t.Context(), []string{"linux"})
	assert.True(t, err != nil && strings.Contains(err.Error(), "linux/amd64"), "%v", err)
}

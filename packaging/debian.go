package main

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/goreleaser/nfpm/v2"
	"github.com/goreleaser/nfpm/v2/deb"
	"github.com/goreleaser/nfpm/v2/files"
)

// debianPlace is where Debian wants a file of an archive.
func debianPlace(name string) string {
	switch {
	case strings.HasPrefix(name, "man/"):
		return "/usr/share/" + name + ".gz"
	case strings.HasPrefix(name, "completions/bash/"):
		return "/usr/share/bash-completion/" + strings.Replace(name, "bash/", "", 1)
	case strings.HasPrefix(name, "completions/zsh/"):
		return "/usr/share/zsh/vendor-completions/" + filepath.Base(name)
	case strings.HasPrefix(name, "completions/fish/"):
		return "/usr/share/fish/vendor_completions.d/" + filepath.Base(name)
	case name == "recipes/holdfast-serve.service":
		return "/usr/lib/systemd/system/holdfast-serve.service"
	case strings.HasPrefix(name, "recipes/"):
		return "/usr/share/doc/holdfast/examples/" + filepath.Base(name)
	case name == "CHANGELOG.md":
		return "/usr/share/doc/holdfast/" + name + ".gz"
	case name == "copyright", name == "changelog":
		return "/usr/share/doc/holdfast/" + strings.Replace(name, "changelog", "changelog.gz", 1)
	}
	return "/usr/bin/" + name
}

// maintainer is who answers for the package.
const maintainer = "The Holdfast authors <authors@holdfast.example>"

// changes is a changelog in Debian's form.
const changes = `holdfast (%s) unstable; urgency=medium

  * What has changed is in CHANGELOG.md.gz.

 -- %s  %s
`

// description is what Debian knows of a package: a line, and a paragraph.
const description = `distributed locks on Redis and Valkey
Holdfast runs a command while it holds a lock on a Redis or Valkey server.
It also lists and inspects locks, checks the server for what threatens
them, and shows them on a web page.`

// debian makes a Debian package. It installs the service of the web page, and does not start it.
func (p *packager) debian(arch string, items []item) (name string, data []byte, err error) {
	dir, err := os.MkdirTemp("", "debian")
	if err != nil {
		return "", nil, err
	}
	defer os.RemoveAll(dir)                            //nolint:errcheck // it is a temporary directory
	version := strings.Replace(p.version, "-", "~", 1) // a version in development comes before its release
	info := &nfpm.Info{
		Name: "holdfast", Version: version, Platform: "linux", Arch: arch, Section: "admin", Maintainer: maintainer,
		Homepage: "https://github.com/holdfast-go/holdfast", Description: description,
		MTime: p.date, DisableGlobbing: true,
	}
	info.Suggests, info.Deb.Compression = []string{"valkey-server | redis-server"}, "xz"
	items = append(slices.Clip(items),
		item{"changelog", fmt.Appendf(nil, changes, version, maintainer, p.date.Format(time.RFC1123Z)), 0o644})
	for _, i := range items {
		if i.name == "LICENSE" || i.name == notices {
			continue // Debian has the first, and the file copyright has the terms of the others
		}
		place := debianPlace(i.name)
		if strings.HasSuffix(place, ".gz") {
			if i.data, err = zipText(i.data); err != nil {
				return "", nil, err
			}
		}
		source := filepath.Join(dir, filepath.FromSlash(place))
		if err := write(source, i.data, i.mode); err != nil {
			return "", nil, err
		}
		info.Contents = append(info.Contents, &files.Content{
			Source: source, Destination: place, FileInfo: &files.ContentFileInfo{Mode: i.mode},
		})
	}
	var out bytes.Buffer
	err = deb.Default.Package(info, &out)
	return deb.Default.ConventionalFileName(info), out.Bytes(), err
}

// write writes a file with this mode, whatever the umask is, and the directories above it.
func write(path string, data []byte, mode os.FileMode) error {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(path, data, mode); err != nil {
		return err
	}
	return os.Chmod(path, mode)
}

// zipText compresses as gzip -9n does: without a name and a date.
func zipText(text []byte) ([]byte, error) {
	var out bytes.Buffer
	w, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(text); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

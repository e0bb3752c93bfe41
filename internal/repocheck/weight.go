package repocheck

import (
	"bytes"
	"fmt"
	"path"
	"slices"
	"strings"
)

// MaxFileBytes is the size of the largest file that is no picture. What a command writes (results, records of
// runs) stays out of the tree, and a page says which command writes it.
const MaxFileBytes = 300_000

// pictures are the binary files that a page may show.
var pictures = []string{".gif", ".jpeg", ".jpg", ".png"}

// binaries are the first bytes of programs and archives. Most of them also contain a NUL byte, but a
// short archive may not.
var binaries = []struct{ what, begins string }{
	{"an ELF program", "\x7fELF"},
	{"a Windows program", "MZ\x90"},
	{"a macOS program", "\xcf\xfa\xed\xfe"},
	{"a macOS program", "\xca\xfe\xba\xbe"},
	{"a gzip archive", "\x1f\x8b\x08"},
	{"a zip archive", "PK\x03\x04"},
	{"an xz archive", "\xfd7zXZ\x00"},
	{"a zstd archive", "\x28\xb5\x2f\xfd"},
	{"a package or static library", "!<arch>\n"},
}

// The header of a tar archive has its name at this offset.
const tarMagicAt = 257

// Weight reports a file that does not belong in a repository: a program, an archive, other binary
// content, or more bytes than a reader reads.
func Weight(file string, content []byte) []Problem {
	if slices.Contains(pictures, strings.ToLower(path.Ext(file))) {
		return nil
	}
	if what := binary(content); what != "" {
		return []Problem{{file, 0, "is " + what + "; commit what it is made from"}}
	}
	if n := len(content); n > MaxFileBytes {
		text := fmt.Sprintf("has %d bytes, more than %d; name the command that writes it", n, MaxFileBytes)
		return []Problem{{file, 0, text}}
	}
	return nil
}

// binary says what kind of binary file has this content, or returns "" for text.
func binary(content []byte) string {
	for _, b := range binaries {
		if bytes.HasPrefix(content, []byte(b.begins)) {
			return b.what
		}
	}
	switch {
	case len(content) > tarMagicAt && bytes.HasPrefix(content[tarMagicAt:], []byte("ustar")):
		return "a tar archive"
	case bytes.IndexByte(content, 0) >= 0:
		return "a binary file: it contains NUL bytes"
	}
	return ""
}

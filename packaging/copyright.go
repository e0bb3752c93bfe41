package main

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// copyrightHead is the part of Debian's file copyright about Holdfast itself.
const copyrightHead = `Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: holdfast
Source: https://github.com/holdfast-go/holdfast
Comment: The programs are linked with the Go standard library (std) and with
 modules of others. Their files are named as Go names them: module@version.

Files: *
Copyright: The Holdfast authors
License: Apache-2.0
` + commonApache

// commonApache is what Debian wants to read of a licence that it has a copy of.
const commonApache = ` On Debian systems, the text of this licence is in
 /usr/share/common-licenses/Apache-2.0.
`

// debianCopyright is Debian's file copyright, in the form that programs read.
func debianCopyright(parts []part) item {
	var out strings.Builder
	out.WriteString(copyrightHead)
	for _, p := range parts {
		if len(p.terms) == 0 {
			continue // of this repository
		}
		fmt.Fprintf(&out, "\nFiles: %s/*\nCopyright: %s\nLicense: %s\n", p,
			strings.Join(holders(p), "\n "), debianLicence(p.licence))
		var texts []string
		for _, file := range p.terms {
			text := commonApache
			if !slices.Equal(licencesOf(file.data), []string{"Apache-2.0"}) {
				text = indented(plain(file.data))
			}
			texts = append(texts, " "+file.name+":\n .\n"+text)
		}
		out.WriteString(strings.Join(texts, " .\n"))
	}
	return item{"copyright", []byte(out.String()), 0o644}
}

// debianLicence says an SPDX expression with Debian's names.
func debianLicence(expression string) string {
	ids := strings.Split(expression, " AND ")
	for i, id := range ids {
		ids[i] = permitted[id]
	}
	return strings.Join(ids, " and ")
}

// copyrightLine is one with a holder, not one that speaks of copyright.
var copyrightLine = regexp.MustCompile(`(?im)^[ \t*]*copyright[ \t:]+((?:\(c\)|©|\d{4}).*?)[ \t*]*$`)

// holders are the lines of a part's terms that say who has the copyright.
func holders(p part) []string {
	var list []string
	for _, file := range p.terms {
		for _, found := range copyrightLine.FindAllStringSubmatch(plain(file.data), -1) {
			if !slices.Contains(list, found[1]) {
				list = append(list, found[1])
			}
		}
	}
	if len(list) == 0 {
		return []string{"the authors of " + p.path}
	}
	return list
}

// indented is a text as a field of Debian goes on: each line behind a space, an empty one as a dot.
func indented(text string) string {
	var out strings.Builder
	for line := range strings.Lines(strings.TrimSpace(text) + "\n") {
		if line = strings.TrimRight(line, " \t\n\f\v"); line == "" {
			line = "."
		}
		out.WriteString(" " + line + "\n")
	}
	return out.String()
}

package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
)

// pagePath is the page that has the table.
func pagePath(root string) string {
	return filepath.Join(root, "docs", "track-record", "mutations.md")
}

var row = regexp.MustCompile("(?m)^\\| (.+) \\| `(?:[^`]+)` \\| ([^:|]+): `(\\w+)[^`]*` \\|$")

// readPage answers what the table says of each mutant. A page that cannot be read knows
// nothing: then every check is run from its beginning.
func readPage(path string) map[string]caught {
	known := map[string]caught{}
	text, err := os.ReadFile(path)
	if err != nil {
		return known
	}
	for _, found := range row.FindAllStringSubmatch(string(text), -1) {
		known[found[1]] = caught{check: found[2], test: found[3]}
	}
	return known
}

// writePage puts what was found into the table. The other mutants keep their rows, and one
// that nobody has caught has none.
func writePage(path string, found verdict) error {
	known := readPage(path)
	known[found.name] = found.caught
	var all []verdict
	for _, m := range mutants {
		if by := known[m.name]; by != (caught{}) {
			all = append(all, verdict{mutant: m, caught: by})
		}
	}
	return os.WriteFile(path, table(all), 0o600)
}

// table is the page that shows what caught what.
func table(all []verdict) []byte {
	var b bytes.Buffer
	b.WriteString("# Mutations\n\n" +
		"Each line is a defect that was put into the library on purpose, and a test that noticed it.\n" +
		"Written by `make mutation`, which breaks one rule after the other and fails if a defect survives; what\n" +
		"exactly is replaced is in [verify/mutation](../../verify/mutation).\n\n" +
		"| defect | in | caught by |\n|---|---|---|\n")
	for _, v := range all {
		fmt.Fprintf(&b, "| %s | `%s` | %s: `%s` |\n", v.name, v.file, v.check, v.test)
	}
	return b.Bytes()
}

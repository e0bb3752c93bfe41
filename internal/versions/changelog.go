package main

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

var versionForm = regexp.MustCompile(`^v([01])\.(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)(-[0-9A-Za-z.-]+)?$`)

// versionConstant is the line of the library's version.
var versionConstant = regexp.MustCompile(`const Version = "[^"]*"`)

// next is what the branch calls itself after a release: the next minor version, in development.
func next(version string) string {
	part := versionForm.FindStringSubmatch(version)
	minor, _ := strconv.Atoi(part[2])
	if part[4] == "" { // a release candidate is followed by its release
		minor++
		part[3] = "0"
	}
	return fmt.Sprintf("%s.%d.%s-dev", part[1], minor, part[3])
}

// checkVersion refuses what is no version, and a major version that module paths would have to
// name.
func checkVersion(version string) error {
	if !versionForm.MatchString(version) {
		return fmt.Errorf("%q is not a version: write v0.1.0, or v0.1.0-rc.1; "+
			"from v2 on, the module paths must change first", version)
	}
	return nil
}

const unreleased = "## [Unreleased]\n"

// cut gives the unreleased part of the changelog a version and a date. A new, empty part takes
// its place.
func cut(changelog, version, date string) (string, error) {
	before, after, found := strings.Cut(changelog, unreleased)
	if !found {
		return "", fmt.Errorf("CHANGELOG.md has no line %q", strings.TrimSpace(unreleased))
	}
	part, _, _ := strings.Cut(after, "\n## ")
	if !strings.Contains(part, "\n- ") {
		return "", errors.New("CHANGELOG.md says nothing about this version: " +
			"write what changed below " + strings.TrimSpace(unreleased))
	}
	return before + unreleased + "\n## [" + strings.TrimPrefix(version, "v") + "] - " + date + "\n" + after, nil
}

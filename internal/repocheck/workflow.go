package repocheck

import (
	"path"
	"regexp"
	"strings"
)

var (
	usesLine = regexp.MustCompile(`^(?:[^#]*[\s{,])?["']?uses["']?\s*:\s*(\S+)(.*)$`)
	pinned   = regexp.MustCompile(`^[\w.-]+/[\w./-]+@[0-9a-f]{40}$`)
	release  = regexp.MustCompile(`^\s+#\s*v\d+(\.\d+)*\s*$`)
)

// Pinned reports actions of a workflow that are not named by a commit, with the release in a comment. A
// tag can be moved: then a stranger's code runs with the rights of the workflow.
func Pinned(file, text string) []Problem {
	var problems []Problem
	for n, line := range lines(text) {
		found := usesLine.FindStringSubmatch(line)
		switch {
		case found == nil || strings.HasPrefix(found[1], "./"): // of this repository
		case !pinned.MatchString(found[1]):
			problems = append(problems, Problem{file, n + 1, "uses " + found[1] + ", which is not pinned by a commit"})
		case !release.MatchString(found[2]):
			problems = append(problems, Problem{file, n + 1,
				"uses " + path.Base(found[1][:len(found[1])-41]) + " without the release of the commit in a comment"})
		}
	}
	return problems
}

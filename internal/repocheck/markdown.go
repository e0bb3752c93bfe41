package repocheck

import (
	"fmt"
	"net/url"
	"path"
	"regexp"
	"sort"
	"strings"
)

var (
	inlineLink = regexp.MustCompile(`\]\(\s*<?([^)\s>]+)>?(?:\s+["'(][^)]*)?\)`)
	namedLink  = regexp.MustCompile(`^ {0,3}\[[^\]]+\]:\s*<?([^\s>]+)`)
	codeSpan   = regexp.MustCompile("`[^`]*`")
	scheme     = regexp.MustCompile(`^[a-z][a-z0-9+.-]*:`)
)

// Links reports relative links in a Markdown file to files or directories
// that do not exist, by exists, which is given paths relative to the root.
// Text that is code, fenced or in backquotes, has no links. The part of a
// target behind # is not judged.
func Links(file, text string, exists func(string) bool) []Problem {
	var problems []Problem
	for n, line := range prose(text) {
		line = codeSpan.ReplaceAllString(line, "``")
		found := append(inlineLink.FindAllStringSubmatch(line, -1), namedLink.FindAllStringSubmatch(line, -1)...)
		for _, m := range found {
			if why := deadLink(file, m[1], exists); why != "" {
				problems = append(problems, Problem{file, n + 1, fmt.Sprintf("links to %s, %s", m[1], why)})
			}
		}
	}
	return problems
}

// deadLink says what is wrong with a target, or "".
func deadLink(file, target string, exists func(string) bool) string {
	if scheme.MatchString(target) || strings.HasPrefix(target, "//") {
		return "" // on another site
	}
	target, _, _ = strings.Cut(target, "#")
	if target == "" {
		return "" // a place on the same page
	}
	if strings.HasPrefix(target, "/") {
		return "which is absolute; not every place that shows this page has our root"
	}
	plain, err := url.PathUnescape(target)
	if err != nil {
		return "which is not a valid address"
	}
	full := path.Join(path.Dir(file), plain)
	if full == ".." || strings.HasPrefix(full, "../") {
		return "which is outside of the repository"
	}
	if full != "." && !exists(full) {
		return "which does not exist"
	}
	return ""
}

// prose returns the lines of a Markdown file. Lines of fenced code are empty, so line
// numbers are unchanged.
func prose(text string) []string {
	out := lines(text)
	fence := ""
	for i, line := range out {
		trimmed := strings.TrimSpace(line)
		switch {
		case fence != "":
			out[i] = ""
			if strings.HasPrefix(trimmed, fence) {
				fence = ""
			}
		case strings.HasPrefix(trimmed, "```"), strings.HasPrefix(trimmed, "~~~"):
			fence, out[i] = trimmed[:3], ""
		}
	}
	return out
}

var (
	// The first word of a table row, a bullet or a heading.
	guarantee = regexp.MustCompile("^\\s*([|#]+|[-*+]|\\d+[.)])\\s*[*_`\\[]*(G[1-9]\\d*)\\b")
	heading   = regexp.MustCompile(`^#+\s`)
	cited     = regexp.MustCompile("`(?:\\w+\\.)?((?:Test|Fuzz|Example|Benchmark)[A-Z0-9_]\\w*)[^`]*`")
)

// Guarantees reports guarantees without a test, and names of tests that are not in the
// set of existing tests. The test of this package describes the format of the page.
func Guarantees(file, text string, tests map[string]bool) []Problem {
	var problems []Problem
	stated := map[string]int{} // the line of each guarantee
	proven := map[string]bool{}
	current := ""
	for n, line := range prose(text) {
		row := false
		if m := guarantee.FindStringSubmatch(line); m != nil {
			current, row = m[2], strings.HasPrefix(m[1], "|")
			if stated[current] == 0 {
				stated[current] = n + 1
			}
		} else if heading.MatchString(line) {
			current = ""
		}
		for _, m := range cited.FindAllStringSubmatch(line, -1) {
			if !tests[m[1]] {
				problems = append(problems, Problem{file, n + 1, "cites " + m[1] + ", which is no test in this tree"})
				continue
			}
			proven[current] = true
		}
		if row {
			current = "" // a row ends with its line
		}
	}
	for g, line := range stated {
		if !proven[g] {
			problems = append(problems, Problem{file, line, g + " names no test that exists"})
		}
	}
	if len(stated) == 0 {
		problems = append(problems, Problem{file, 0, "states no guarantee in the expected form"})
	}
	sort.SliceStable(problems, func(i, j int) bool { return problems[i].Line < problems[j].Line })
	return problems
}

var (
	madeOnPage = regexp.MustCompile("`make ([a-z][a-z-]*)")
	makeTarget = regexp.MustCompile(`(?m)^([a-z][a-z-]*):`)
)

// Commands reports targets of make that a page names in backquotes and that makefile does not have.
func Commands(file, text, makefile string) []Problem {
	there := map[string]bool{}
	for _, m := range makeTarget.FindAllStringSubmatch(makefile, -1) {
		there[m[1]] = true
	}
	var problems []Problem
	for n, line := range lines(text) {
		for _, m := range madeOnPage.FindAllStringSubmatch(line, -1) {
			if !there[m[1]] {
				text := fmt.Sprintf("names make %s, which the Makefile does not have", m[1])
				problems = append(problems, Problem{file, n + 1, text})
			}
		}
	}
	return problems
}

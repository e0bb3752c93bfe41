package repocheck

import (
	"path"
	"regexp"
	"strings"
)

// Words counts how often phrases occur in a Go, Lua, Markdown or text file: in prose, and in
// names (takeSeat and seat_of contain the word seat). A phrase is one word or several, in
// lower case. The plural of its last word counts too. Other phrases, in which a word has
// another meaning, are left out first.
func Words(file, text string, phrases, other []string) map[string]int {
	counts := map[string]int{}
	switch path.Ext(file) {
	case ".go", ".lua", ".md", ".txt":
	default:
		return counts
	}
	text = spaced(strings.Join(nameParts.FindAllString(text, -1), " "))
	for _, phrase := range other {
		text = strings.ReplaceAll(text, spaced(phrase), "")
	}
	for _, phrase := range phrases {
		if n := strings.Count(text, spaced(phrase)) + strings.Count(text, spaced(phrase+"s")); n > 0 {
			counts[phrase] = n
		}
	}
	return counts
}

// nameParts splits text into words, and names at their capitals.
var nameParts = regexp.MustCompile(`[A-Z]?[a-z]+|[A-Z]+`)

// spaced returns words in lower case, each with a space on both sides. So one phrase may
// follow another, and both are found.
func spaced(words string) string {
	return " " + strings.ReplaceAll(strings.ToLower(words), " ", "  ") + " "
}

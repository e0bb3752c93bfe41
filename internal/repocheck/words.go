package repocheck

import (
	"path"
	"regexp"
	"strings"
)

// Words counts how often words stand in a Go, Lua or Markdown file: in prose, and as
// parts of names (takeSeat and seat_of have a seat). Plurals count.
func Words(file, text string, wanted []string) map[string]int {
	counts := map[string]int{}
	switch path.Ext(file) {
	case ".go", ".lua", ".md":
	default:
		return counts
	}
	retired := map[string]bool{}
	for _, word := range wanted {
		retired[word] = true
	}
	for _, word := range nameParts.FindAllString(text, -1) {
		word = strings.ToLower(word)
		if !retired[word] {
			word = strings.TrimSuffix(word, "s")
		}
		if retired[word] {
			counts[word]++
		}
	}
	return counts
}

// nameParts splits text into words, and names at their capitals.
var nameParts = regexp.MustCompile(`[A-Z]?[a-z]+|[A-Z]+`)

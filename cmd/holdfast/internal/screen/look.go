package screen

import "strings"

// Colors reports whether a terminal shows colours, and its user wants them.
func Colors(getenv func(string) string) bool {
	return getenv("NO_COLOR") == "" && getenv("TERM") != Dumb
}

// Dumb is the value of TERM for a terminal that can only print lines, such as that of an editor.
const Dumb = "dumb"

// UTF8 says whether the terminal understands more than ASCII, by the
// rules of locale(7): the first variable that is set decides.
func UTF8(getenv func(string) string) bool {
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if value := getenv(name); value != "" {
			value = strings.ToLower(value)
			return strings.Contains(value, "utf-8") || strings.Contains(value, "utf8")
		}
	}
	return false
}

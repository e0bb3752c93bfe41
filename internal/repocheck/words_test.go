package repocheck

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/assert"
)

func TestWords(t *testing.T) {
	text := "func takeSeat(seats []seat) // a seat, no seating; SEAT. A reader that\n" +
		"// steps up steps up; the seat of a bicycle"
	got := Words("a.go", text, []string{"seat", "steps up", "turn"}, []string{"seat of a bicycle"})
	assert.True(t, fmt.Sprint(got) == "map[seat:5 steps up:2]", "%v", got)
	got = Words("a.svg", "seat", []string{"seat"}, nil)
	assert.True(t, len(got) == 0, "%v", got)
}

// The words of testdata/retired.txt had several meanings, or were metaphors for something
// that has a usual name. A row is the number of uses that are left, the word, and what to
// write instead. The number only falls:
//
//	go test ./internal/repocheck -run TestRetiredWords -rewrite
func TestRetiredWords(t *testing.T) {
	file := filepath.Join("testdata", "retired.txt")
	record, err := os.ReadFile(file)
	assert.Must(t, err)
	var words []string
	most, instead, found := map[string]int{}, map[string]string{}, map[string][]string{}
	for _, line := range lines(string(record)) {
		part := strings.Split(line, "\t")
		n, err := strconv.Atoi(part[0])
		assert.MustTrue(t, err == nil && len(part) == 3,
			"%s: %q is not a number, a word, and another word", file, line)
		words, most[part[1]], instead[part[1]] = append(words, part[1]), n, part[2]
	}
	counts := map[string]int{}
	for file, text := range readTree(t) {
		for word, n := range Words(file, text, words, otherMeanings) {
			if !excepted(file, word) {
				counts[word] += n
				found[word] = append(found[word], file)
			}
		}
	}
	var out strings.Builder
	for _, word := range words {
		fmt.Fprintf(&out, "%d\t%s\t%s\n", counts[word], word, instead[word])
		if counts[word] > most[word] && !*rewrite {
			t.Errorf("%q occurs %d times, %d times before, in %q: write %s",
				word, counts[word], most[word], found[word], instead[word])
		}
	}
	if *rewrite {
		assert.Must(t, os.WriteFile(file, []byte(out.String()), 0o600))
	}
}

// otherMeanings are phrases in which a retired word means something else.
var otherMeanings = []string{
	"room for", "no room", // capacity, and not what readers share
	"zoo keeper", // ZooKeeper
}

// exceptions are files in which a retired word may be used. The key is a path, or a
// directory with its slash; no words mean all words.
var exceptions = map[string][]string{
	// It contains the words in order to find them.
	"internal/repocheck/": nil,
	// It names what users must replace.
	"CHANGELOG.md": {"step up", "step down"},
	// The name of a fault, and a finding. The recorded rounds have them, and must not change.
	"verify/fault/server.go":       {"deaf"},
	"verify/suite/nemesis_test.go": {"deaf"},
	"tests/neighbours/world.go":    {"deaf"},
	"docs/track-record/record.md":  {"deaf", "stays taken"},
	"docs/track-record/faults.md":  {"deaf"},
	// Not a queue: in.Line reads a line, and in is a reader of lines.
	"verify/history/":  {"in line"},
	"verify/workload/": {"in line"},
}

// excepted reports whether a file may use a word.
func excepted(file, word string) bool {
	for where, words := range exceptions {
		within := file == where || strings.HasSuffix(where, "/") && strings.HasPrefix(file, where)
		if within && (len(words) == 0 || slices.Contains(words, word)) {
			return true
		}
	}
	return false
}

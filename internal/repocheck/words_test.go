package repocheck

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestWords(t *testing.T) {
	text := "func takeSeat(seats []seat) // a seat, no seating; SEAT, deafness"
	got := Words("a.go", text, []string{"seat", "deafness"})
	if fmt.Sprint(got) != "map[deafness:1 seat:5]" {
		t.Error(got)
	}
	if got := Words("a.txt", "seat", []string{"seat"}); len(got) != 0 {
		t.Error(got)
	}
}

// Words that the field does not use, or that had several meanings. Each has a better
// one in its place; how often they still stand somewhere is in testdata/retired.txt,
// and only falls:
//
//	go test ./internal/repocheck -run TestRetiredWordsGo -rewrite
func TestRetiredWordsGo(t *testing.T) {
	file := filepath.Join("testdata", "retired.txt")
	record, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	most := map[string]int{}
	var words []string
	for _, line := range lines(string(record)) {
		var word string
		var n int
		if _, err := fmt.Sscan(line, &word, &n); err != nil {
			t.Fatalf("%s: %q: %v", file, line, err)
		}
		words, most[word] = append(words, word), n
	}
	counts := map[string]int{}
	for file, text := range readTree(t) {
		// The record is printed from data: names of faults, and what rounds have said.
		if strings.HasPrefix(file, "internal/repocheck/") || file == "docs/track-record/record.md" {
			continue
		}
		for word, n := range Words(file, text, words) {
			counts[word] += n
		}
	}
	var out strings.Builder
	for _, word := range words {
		fmt.Fprintf(&out, "%s %d\n", word, counts[word])
		if counts[word] > most[word] && !*rewrite {
			t.Errorf("%q stands %d times, %d times before: use the glossary's word", word, counts[word], most[word])
		}
	}
	if *rewrite {
		if err := os.WriteFile(file, []byte(out.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

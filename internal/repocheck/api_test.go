package repocheck

import (
	"flag"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/assert"
)

var rewrite = flag.Bool("rewrite", false, "write the records of testdata anew")

// The packages that other programs import.
var imported = []string{
	".", "compat/bridge", "compat/redislock", "compat/redisson", "compat/redsync", "fence", "fence/httpfence",
	"fence/objectfence",
	"fence/redisfence", "fence/s3fence", "fence/sqlfence",
	"integrate/certmagiclock", "integrate/cronlock", "integrate/gocronlock", "integrate/leaderelection",
	"integrate/locker",
	"memstore", "observe", "observe/otel", "observe/page", "observe/prom", "quorum", "script", "store", "store/goredis",
	"store/rueidis", "store/storetest", "vet",
}

// A change of the public API shows in the diff of testdata/api, so a reviewer sees it:
//
//	go test ./internal/repocheck -run TestThePublicAPIIsAsRecorded -rewrite
func TestThePublicAPIIsAsRecorded(t *testing.T) {
	packages := map[string]map[string]string{}
	for file, text := range readTree(t) {
		dir := path.Dir(file)
		if packages[dir] == nil {
			packages[dir] = map[string]string{}
		}
		packages[dir][file] = text
	}
	for _, dir := range imported {
		t.Run(dir, func(t *testing.T) {
			got, err := API(path.Join("github.com/holdfast-go/holdfast", dir), packages[dir])
			assert.Must(t, err)
			compareRecord(t, apiRecord(dir), got)
		})
	}
}

// apiRecord is the file with the public API of a package.
func apiRecord(dir string) string {
	name := strings.ReplaceAll(strings.ReplaceAll(dir, "/", "_"), ".", "holdfast")
	return filepath.Join("testdata", "api", name+".txt")
}

// compareRecord compares a text with the record in a file, or writes the record.
func compareRecord(t *testing.T, file, got string) {
	t.Helper()
	if *rewrite {
		assert.Must(t, os.WriteFile(file, []byte(got), 0o600))
		return
	}
	want, err := os.ReadFile(file)
	assert.Must(t, err)
	if got == string(want) {
		return
	}
	was, is := lineSet(string(want)), lineSet(got)
	for _, line := range lines(string(want)) {
		assert.True(t, is[line], "%s: gone: %s", file, line)
	}
	for _, line := range lines(got) {
		assert.True(t, was[line], "%s: new: %s", file, line)
	}
	t.Errorf("%s is not what it was; if that is on purpose, run this test with -rewrite", file)
}

func lineSet(text string) map[string]bool {
	set := map[string]bool{}
	for _, line := range lines(text) {
		set[line] = true
	}
	return set
}

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/assert"
)

// sizeLimit is the most bytes that the tool has, built as docs/operating.md says. If a change
// adds ten megabytes, look for html/template or another caller of reflect's MethodByName: then
// the linker keeps every exported method. Otherwise, go tool nm -size -sort size lists what a
// build without -s -w has.
//
// The tag leaves out HTTP/2, which the tool does not need: serve speaks HTTP without TLS. Without
// cgo, the resolver is Go's own. Functions that begin at every 16 bytes instead of 32 save 150 KB.
const sizeLimit = 15_000_000

func TestTheToolIsSmall(t *testing.T) {
	path := filepath.Join(t.TempDir(), "holdfast")
	build := exec.CommandContext(t.Context(), "go", "build",
		"-tags=nethttpomithttp2", "-trimpath", "-ldflags=-s -w -funcalign=16", "-o", path, ".")
	build.Env = append(build.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	info, err := os.Stat(path)
	assert.Must(t, err)
	t.Logf("%d bytes", info.Size())
	assert.True(t, info.Size() <= sizeLimit, "the tool has %d bytes; the limit is %d", info.Size(), sizeLimit)
}

func TestTheToolHasNothingOfTheFaultSuite(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", ".").CombinedOutput()
	assert.MustTrue(t, err == nil, "%v\n%s", err, out)
	deps := strings.Fields(string(out))
	for _, dep := range deps {
		if strings.Contains(dep, "holdfast/verify") || strings.Contains(dep, "rueidis") || dep == "html/template" {
			t.Errorf("the tool has %s", dep)
		}
	}
	assert.AtLeast(t, len(deps), 100, "packages: %s", out)
}

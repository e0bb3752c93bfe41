package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/assert"
)

// sizeLimit is the most bytes that the tool has, built as make build does. It is far above what the tool
// needs, and notices only an accident: if a program uses html/template, or another caller of reflect's
// MethodByName, the linker keeps every exported method, and the tool is twice as large.
const sizeLimit = 20_000_000

func TestTheToolIsSmall(t *testing.T) {
	path := filepath.Join(t.TempDir(), "holdfast")
	build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-ldflags=-s -w", "-o", path, ".")
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

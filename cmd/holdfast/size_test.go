package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// sizeLimit is the most that the tool has, built as docs/operating.md says. Who wants to
// raise it looks first at what go tool nm -size -sort size says of a build without -s -w.
const sizeLimit = 16_000_000 // 15 when the demo has workers of its own

func TestTheToolIsSmall(t *testing.T) {
	path := filepath.Join(t.TempDir(), "holdfast")
	build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-ldflags=-s -w", "-o", path, ".")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d bytes", info.Size())
	if info.Size() > sizeLimit {
		t.Errorf("the tool has %d bytes; the limit is %d", info.Size(), sizeLimit)
	}
}

// The demo's workers are client processes of the fault suite, and its judge is the suite's.
// Of everything else in verify, the tool has nothing.
func TestTheToolHasNothingOfTheFaultSuite(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", ".").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	const verify = "github.com/holdfast-go/holdfast/verify/"
	ofDemo := map[string]bool{"audit": true, "check": true, "history": true, "workload": true}
	deps := strings.Fields(string(out))
	for _, dep := range deps {
		if name, ok := strings.CutPrefix(dep, verify); ok && !ofDemo[name] {
			t.Errorf("the tool has %s", dep)
		}
	}
	if len(deps) < 100 {
		t.Errorf("only %d packages: %s", len(deps), out)
	}
}

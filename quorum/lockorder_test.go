//go:build lockorder

package quorum_test

import (
	"os"
	"testing"

	"github.com/holdfast-go/holdfast/internal/lockorder"
)

func TestMain(m *testing.M) { os.Exit(lockorder.Main(m, "../docs/architecture.md")) }

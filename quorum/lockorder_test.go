//go:build lockorder

package quorum_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/holdfast-go/holdfast/internal/lockorder"
)

// After the tests, the order in which they locked mutexes is compared with docs/architecture.md.
func TestMain(m *testing.M) {
	code := m.Run()
	page, err := os.ReadFile("../docs/architecture.md")
	if err != nil {
		fmt.Println(err)
		code = 1
	}
	for _, difference := range lockorder.Differences(string(page), lockorder.Seen()) {
		fmt.Println("docs/architecture.md, The mutexes:", difference)
		code = 1
	}
	os.Exit(code)
}

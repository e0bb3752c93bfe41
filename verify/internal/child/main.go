//go:build unix

package child

import (
	"fmt"
	"os"
	"testing"

	"github.com/holdfast-go/holdfast/verify/internal/leaks"
)

// marked turns the test binary into a client process.
const marked = "HOLDFAST_VERIFY_CLIENT"

// Main is the TestMain of tests whose clients are processes: in those, which
// are the test binary too, it runs client.
func Main(m *testing.M, client func() error) {
	if os.Getenv(marked) != "" {
		if err := client(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	if err := os.Setenv(marked, "yes"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	leaks.Main(m)
}

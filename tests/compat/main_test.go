package compat

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9/logging"

	"github.com/holdfast-go/holdfast/internal/assert"
)

func TestMain(m *testing.M) {
	logging.Disable()
	os.Exit(m.Run())
}

// notes are what a case of a table writes down. Both packages are to write the same.
type notes struct {
	t    *testing.T
	said []string
}

func (n *notes) sayf(format string, args ...any) {
	n.said = append(n.said, fmt.Sprintf(format, args...))
}

// check compares the notes with what both packages say, or with what ours says on purpose.
func (n *notes) check(isOurs bool, want, ours string) {
	n.t.Helper()
	if isOurs && ours != "" {
		want = ours
	}
	got := strings.Join(n.said, "; ")
	assert.True(n.t, got == want, "\n got %s\nwant %s", got, want)
}

// matches says which of some errors err is, and those of contexts: itself, or by wrapping it.
func matches(err error, sentinels map[string]error) (said []string) {
	sentinels["Canceled"], sentinels["DeadlineExceeded"] = context.Canceled, context.DeadlineExceeded
	for name, sentinel := range sentinels {
		switch {
		case err == sentinel: //nolint:errorlint // users compare so
			said = append(said, "=="+name)
		case errors.Is(err, sentinel):
			said = append(said, "is "+name)
		}
	}
	return said
}

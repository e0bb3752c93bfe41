package fence_test

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/internal/assert"
)

func ExampleCheck() {
	fmt.Println(fence.Check("invoice/42", 0))
	// Output: fence: invalid: 0 is not the token of any lease: pass Lease.Token()
}

func ExampleJudge() {
	fmt.Println(fence.Judge("invoice/42", 7, 7))
	fmt.Println(fence.Judge("invoice/42", 7, 8))
	// Output:
	// <nil>
	// fence: invoice/42 has seen token 8: token 7 is stale
}

func TestOnlyTokensOfLeasesAndNamesThatFitAreValid(t *testing.T) {
	for _, c := range []struct {
		resource string
		token    uint64
		valid    bool
	}{
		{"a", 1, true},
		{strings.Repeat("a", 255), math.MaxInt64, true},
		{"", 1, false},
		{strings.Repeat("a", 256), 1, false},
		{"a", 0, false},
		{"a", math.MaxInt64 + 1, false},
	} {
		err := fence.Check(c.resource, c.token)
		assert.False(t, (err == nil) != c.valid || err != nil && !errors.Is(err, fence.ErrInvalid),
			"%d bytes, token %d: %v", len(c.resource), c.token, err)
	}
}

func TestAStaleErrorIsTheSentinelAndSaysWhatWasSeen(t *testing.T) {
	err := fmt.Errorf("write: %w", fence.Judge("a", 1, 2))
	var stale *fence.StaleError
	want := fence.StaleError{Resource: "a", Token: 1, Seen: 2}
	assert.True(t, errors.Is(err, fence.ErrStale) && errors.As(err, &stale) && *stale == want, "got %v", err)
}

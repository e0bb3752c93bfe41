package hold

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/say"
	"github.com/holdfast-go/holdfast/internal/assert"
)

func TestTheNameOfALongCommandIsCutBetweenCharacters(t *testing.T) {
	command := "a" + strings.Repeat("é", maxApp)
	for _, o := range []*runOptions{{command: []string{"./" + command}}, {shell: command + " b"}} {
		r := &session{runOptions: o, say: &say.Printer{}}
		assert.Equal(t, r.config().App, command[:maxApp-1], "the name")
	}
}

// A lease that cannot be released ends after its lock-delay, and not before.
func TestAReleaseThatFailsNamesTheEndOfTheLease(t *testing.T) {
	var out strings.Builder
	o := &runOptions{names: []string{"nightly"}}
	assert.Must(t, errors.Join(o.ttl.Set("30s"), o.lockDelay.Set("1m")))
	j := &job{session: &session{runOptions: o, say: &say.Printer{W: &out}}}
	code, _, err := j.ended(0, "done", errors.New("no answer"))
	assert.True(t, code == 0 && err == nil, "%d, %v", code, err)
	want := "the lease expires by itself within " + (90 * time.Second).String()
	assert.True(t, strings.Contains(out.String(), want), "%s", out.String())
}

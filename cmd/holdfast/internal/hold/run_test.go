package hold

import (
	"strings"
	"testing"

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

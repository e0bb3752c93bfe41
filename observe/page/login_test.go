package page

import (
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/assert"
)

func TestTheFormSaysWhatIsWrong(t *testing.T) {
	for _, c := range []struct {
		wrong     string
		want, not []string
	}{
		{"", []string{`name="token"`, "<h1>Holdfast</h1>"}, []string{"{{", "aria-invalid", "alert"}},
		{"That is not the token.", []string{`name="token"`, `aria-invalid="true"`, "not the token"}, []string{"{{"}},
	} {
		text := loginPage(c.wrong)
		for _, want := range c.want {
			assert.True(t, strings.Contains(text, want), "%q: no %q in\n%s", c.wrong, want, text)
		}
		for _, not := range c.not {
			assert.False(t, strings.Contains(text, not), "%q: %q in\n%s", c.wrong, not, text)
		}
	}
}

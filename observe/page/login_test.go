package page

import (
	"strings"
	"testing"
)

func TestTheFormSaysWhatIsWrong(t *testing.T) {
	for _, c := range []struct {
		wrong     bool
		want, not []string
	}{
		{false, []string{`name="token"`, "<h1>Holdfast</h1>"}, []string{"{{", "aria-invalid", "alert"}},
		{true, []string{`name="token"`, `aria-invalid="true"`, "not the token"}, []string{"{{"}},
	} {
		text := loginPage(c.wrong)
		for _, want := range c.want {
			if !strings.Contains(text, want) {
				t.Errorf("%t: no %q in\n%s", c.wrong, want, text)
			}
		}
		for _, not := range c.not {
			if strings.Contains(text, not) {
				t.Errorf("%t: %q in\n%s", c.wrong, not, text)
			}
		}
	}
}

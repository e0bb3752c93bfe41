package page

import (
	"strings"
	"testing"
)

func TestTheFormSaysWhatIsWrongAndRunsNothing(t *testing.T) {
	for _, c := range []struct {
		title string
		wrong bool
		want  []string
		not   []string
	}{
		{"", false, []string{`name="token"`, "<h1>Holdfast</h1>"}, []string{"{{", "where", "aria-invalid", "alert"}},
		{
			"staging", true,
			[]string{`<p class="where">staging</p>`, `aria-invalid="true"`, "not the token"}, []string{"{{"},
		},
		{`<script>"{{wrong}}`, false, []string{"&lt;script&gt;&#34;{{wrong}}"}, []string{"<script"}},
	} {
		text := loginPage(c.title, c.wrong)
		for _, want := range c.want {
			if !strings.Contains(text, want) {
				t.Errorf("%q: no %q in\n%s", c.title, want, text)
			}
		}
		for _, not := range c.not {
			if strings.Contains(text, not) {
				t.Errorf("%q: %q in\n%s", c.title, not, text)
			}
		}
	}
}

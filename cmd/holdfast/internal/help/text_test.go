package help

import (
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/assert"
)

func TestATextIsBrokenForTheWidth(t *testing.T) {
	const text = `A paragraph is
filled anew.

Table:
  key        a text that is filled in
             its column
  key  and   more
  $ a command that is never broken, however long
And so on.
`
	for width, want := range map[int]string{
		80: `A paragraph is filled anew.

Table:
  key        a text that is filled in its column
  key  and   more
  $ a command that is never broken, however long
And so on.
`,
		32: `A paragraph is filled anew.

Table:
  key
      a text that is filled in
      its column
  key  and   more
  $ a command that is never broken, however long
And so on.
`,
	} {
		assert.Equal(t, format(text, width), want, "at %d", width)
	}
}

// An example whose remark has no room beside the command gets it on the next line.
func TestARemarkStandsBesideItsCommandOrBelow(t *testing.T) {
	const text = "  holdfast run nightly -- ./report.sh           the first example\n" +
		"  holdfast run --skip-if-held --once-per 50m hourly -- ./report.sh\n" +
		"                                                one run an hour\n"
	assert.Equal(t, format(text, 80), text, "at 80")
	want := "  holdfast run nightly -- ./report.sh\n      the first example\n" +
		"  holdfast run --skip-if-held --once-per 50m hourly -- ./report.sh\n      one run an hour\n"
	assert.Equal(t, format(text, 60), want, "at 60")
}

func TestShortHelpIsForTheShortFlag(t *testing.T) {
	for line, want := range map[string]bool{
		"": false, "run -h": true, "run --help": false, "run -nh a": true, "run -h a -- x --help": true,
		"run -h --help": false,
	} {
		assert.Equal(t, asksBriefly(strings.Fields(line)), want, "%s", line)
	}
}

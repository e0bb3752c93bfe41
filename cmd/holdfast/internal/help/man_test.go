package help

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/assert"
)

func TestWhatIsATableStaysOne(t *testing.T) {
	const text = "first line\nsecond -n\n\nTable:\n  a  b\n.x c\\"
	const want = "first line\nsecond \\-n\n.PP\n.nf\nTable:\n  a  b\n\\&.x c\\e\n.fi\n"
	assert.Equal(t, manText(text), want, "manText")
}

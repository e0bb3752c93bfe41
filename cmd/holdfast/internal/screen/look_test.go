package screen

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/assert"
)

func TestUTF8Locale(t *testing.T) {
	for _, test := range []struct {
		env  map[string]string
		want bool
	}{
		{nil, false},
		{map[string]string{"LANG": "en_US.UTF-8"}, true},
		{map[string]string{"LANG": "C.utf8"}, true},
		{map[string]string{"LANG": "C"}, false},
		{map[string]string{"LANG": "en_US.UTF-8", "LC_ALL": "C"}, false},
		{map[string]string{"LANG": "C", "LC_CTYPE": "de_DE.UTF-8"}, true},
		{map[string]string{"LC_CTYPE": "C", "LC_ALL": "", "LANG": "en_US.UTF-8"}, false},
	} {
		assert.Equal(t, UTF8(func(name string) string { return test.env[name] }), test.want, "with %v", test.env)
	}
}

package look

import (
	"net/http"
	"net/netip"
	"testing"

	"github.com/holdfast-go/holdfast/internal/assert"
)

// A proxy names the user by a header. Nobody else is believed, and two names are none.
func TestOnlyAProxyNamesTheUser(t *testing.T) {
	o := &serveOptions{userHeader: "X-User"}
	who := o.viewer([]netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("10.0.0.5/32")})
	for _, c := range []struct {
		from  string
		named []string
		want  string
	}{
		{"127.0.0.1:1", []string{"ann"}, "ann"},
		{"[::ffff:10.0.0.5]:1", []string{"ann"}, "ann"},
		{"10.0.0.6:1", []string{"ann"}, ""},
		{"[::1]:1", []string{"ann"}, ""},
		{"127.0.0.1:1", []string{"ann", "bob"}, ""},
		{"127.0.0.1:1", nil, ""},
		{"@", []string{"ann"}, ""},
	} {
		r := &http.Request{RemoteAddr: c.from, Header: http.Header{"X-User": c.named}}
		assert.Equal(t, who(r), c.want, "%+v", c)
	}
}

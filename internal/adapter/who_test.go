package adapter

import (
	"errors"
	"testing"

	"github.com/holdfast-go/holdfast/internal/assert"
)

// An error names its server once: the adapter adds the address only if the client library has not.
func TestAnErrorNamesItsServerOnce(t *testing.T) {
	dial, silent := errors.New("dial tcp 10.0.0.7:6379: connect: connection refused"), errors.New("no answer in time")
	for _, c := range []struct {
		addr string
		err  error
		want string
	}{
		{"10.0.0.7:6379", dial, "lib"},
		{"10.0.0.7:6379", silent, "lib: 10.0.0.7:6379"},
		{"cluster of 10.0.0.8:6379, 10.0.0.7:6379", dial, "lib"},
		{"cluster of 10.0.0.8:6379, 10.0.0.7:6379", silent, "lib: cluster of 10.0.0.8:6379, 10.0.0.7:6379"},
		{"primary behind Sentinel", dial, "lib: primary behind Sentinel"},
	} {
		assert.Equal(t, who("lib", c.addr, c.err), c.want, "in front of %q, of %s", c.err, c.addr)
	}
}

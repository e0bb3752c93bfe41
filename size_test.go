package holdfast

import (
	"testing"
	"unsafe"

	"github.com/holdfast-go/holdfast/internal/assert"
)

// The allocator rounds a hold up to 256 bytes, and one that is a byte larger to 288. A client may have
// a hundred thousand holds that are idle, so what few of them need belongs in holdExtra. The bound is
// that of a machine with words of 64 bits.
func TestAnIdleHoldFitsIn256Bytes(t *testing.T) {
	size := unsafe.Sizeof(hold{})
	assert.True(t, size <= 256, "a hold takes %d bytes, want at most 256", size)
}

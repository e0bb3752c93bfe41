package proc

import (
	"time"

	"github.com/holdfast-go/holdfast/internal/clock"
)

// instant is the machine's clock, which all its processes read alike. It counts the time
// that the machine sleeps: CLOCK_BOOTTIME.
func instant() time.Duration { return clock.Now() }

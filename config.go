// Config: the settings of a client.

package holdfast

import (
	"cmp"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/holdfast-go/holdfast/internal/leasetime"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/observe"
)

// Config configures a client. The zero value suits most programs.
type Config struct {
	// Prefix comes before every key and channel, to separate applications. All clients that
	// share locks need the same prefix. It has 1 to 64 letters, digits, and characters from
	// . _ : / -. Default: "holdfast".
	Prefix string

	// TTL is how long a lease lasts if it is not renewed. It is in whole milliseconds, at
	// least 10 ms.
	//
	// If a holder crashes, it blocks others for at most one TTL. A short TTL has a price: a
	// shorter pause of the process or the network is enough to lose a lease. Default: 30 s.
	TTL time.Duration

	// Retention is how long the server keeps the record of a free lock. While the record
	// exists, the fencing tokens rise even if the server's clock is set back. At most 24 h.
	// Default: 10 min.
	Retention time.Duration

	// RequestTimeout bounds one request to the server. For a lock with the option TTL, the bound is at
	// most a third of that. If it passes, the outcome is unknown. A call that waits asks again, and
	// gives each further acquisition twice the time, up to three quarters of TTL. A renewal then counts
	// as late, and the next one is sent, but its answer is taken for a third of TTL, and of a short one
	// for about as long as RequestTimeout. Default: a third of TTL, at most 3 s.
	RequestTimeout time.Duration

	// App is the name that Inspect shows for this client's holds. Default: the base name of
	// the program.
	App string

	// Under are leases of other processes under which this one runs, as the child of a program that holds a
	// lock does. With them, a deadlock with those processes is found, see [BreakDeadlock]. Of each, Name and
	// HolderID count; of the ID, the part before the slash is enough. Default: none.
	Under []LeaseInfo

	// Logger receives warnings: for example lost leases, and leases that were dropped
	// without a release. Lines contain lock names and no secrets. A panic of its handler ends as
	// that of an [observe.Observer]. Default: none.
	Logger *slog.Logger

	// Observer receives every event, for metrics and traces. Default: none.
	Observer observe.Observer

	// MaxLocalHandOvers limits the local hand-overs of one grant. After that many, the
	// client releases the lock at the server. The default is 1,023, which is also the
	// maximum. On the wire of another library it is 64, because its waiters are not counted
	// there. If it is negative, there are no local hand-overs: every acquisition asks the
	// server.
	MaxLocalHandOvers int
}

const (
	foreignHandOvers = 64 // local hand-overs on the wire of another library
	defaultPrefix    = "holdfast"
	defaultTTL       = 30 * time.Second
	defaultRetention = 10 * time.Minute
	maxRetention     = 24 * time.Hour
	maxTTL           = 365 * 24 * time.Hour
	maxTimeout       = 3 * time.Second
)

// complete fills in the defaults and checks every field.
func (c Config) complete() (Config, error) {
	c.Prefix = cmp.Or(c.Prefix, defaultPrefix)
	c.TTL = cmp.Or(c.TTL, defaultTTL)
	c.Retention = cmp.Or(c.Retention, defaultRetention)
	c.RequestTimeout = cmp.Or(c.RequestTimeout, min(c.TTL/3, maxTimeout))
	if c.App == "" {
		c.App = "go"
		if len(os.Args) > 0 {
			c.App = filepath.Base(os.Args[0])
		}
	}
	c.MaxLocalHandOvers = cmp.Or(c.MaxLocalHandOvers, 1023)
	if err := wire.CheckPrefix(c.Prefix); err != nil {
		return c, invalid("Config.Prefix: %v", err)
	}
	if err := checkTTL(c.TTL); err != nil {
		return c, invalid("Config.TTL: %v", err)
	}
	switch {
	case c.Retention < time.Millisecond || c.Retention > maxRetention:
		return c, invalid("Config.Retention is %v: it must be from 1ms to %v", c.Retention, maxRetention)
	case c.RequestTimeout < time.Millisecond:
		return c, invalid("Config.RequestTimeout is %v: it must be at least 1ms", c.RequestTimeout)
	case c.RequestTimeout > c.TTL/2:
		return c, invalid("Config.RequestTimeout is %v, more than half of the TTL of %v: "+
			"there would be no time to retry a renewal", c.RequestTimeout, c.TTL)
	case len(c.App) > 128:
		return c, invalid("Config.App has %d bytes, the limit is 128", len(c.App))
	}
	return c, nil
}

func checkTTL(ttl time.Duration) error {
	switch {
	case ttl < leasetime.MinTTL:
		return fmt.Errorf("the TTL is %v: it must be at least %v, because a safety margin is subtracted",
			ttl, leasetime.MinTTL)
	case ttl > maxTTL:
		return fmt.Errorf("the TTL is %v: it must be at most %v", ttl, maxTTL)
	case ttl%time.Millisecond != 0:
		return fmt.Errorf("the TTL is %v: the server counts in whole milliseconds: use %v",
			ttl, ttl.Truncate(time.Millisecond))
	}
	return nil
}

package holdfast

import (
	"log/slog"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/script"
)

// A client's own record outlives three announcements: a holder stays known by
// name over a hiccup, and is forgotten soon after its process is gone.
const (
	presenceTTL   = 15 * time.Minute
	presenceEvery = 5 * time.Minute
)

// started is when this process began to use the library, for people only.
var started = time.Now()

func (c *Client) clientKey() string { return wire.ClientKey(c.cfg.Prefix, c.id) }

// introduction is what the client says of itself. No secret is in it.
func (c *Client) introduction(ttl time.Duration) []string {
	host, err := os.Hostname()
	if err != nil || host == "" {
		host = "unknown"
	}
	return []string{
		wire.Millis(ttl), wire.Encode(c.cfg.App), wire.Encode(host), strconv.Itoa(os.Getpid()),
		Version, strconv.FormatInt(started.UnixMilli(), 10),
	}
}

// introduce starts the announcements with the client's first acquisition.
func (c *Client) introduce() {
	if !c.announced.Load() && !c.announced.Swap(true) {
		c.announce()
	}
}

// announce makes the client known, now and from time to time, beside the
// acquisitions: nobody waits for it. A failure is left to the next time.
func (c *Client) announce() {
	c.life.Go(func() {
		_, err := c.run(c.life.Context(), script.RegisterClient, []string{c.clientKey()}, c.introduction(presenceTTL))
		if err != nil && !c.life.IsClosing() {
			c.tell(news{log: func(log *slog.Logger) {
				log.Debug("holdfast: client not announced", "client", c.id, "error", err)
			}})
		}
		c.presence.after(presenceEvery, c.announce, c.life.IsClosing)
	})
}

// presence is the timer of the next announcement.
type presence struct {
	mu    sync.Mutex
	timer *time.Timer // nil before the first announcement
}

// after sets the timer, unless the client is closing: then it would outlive stop.
func (p *presence) after(d time.Duration, announce func(), closing func() bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !closing() {
		p.timer = time.AfterFunc(d, announce)
	}
}

// stop ends the announcements of a client that is closing.
func (p *presence) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.timer != nil {
		p.timer.Stop()
	}
}

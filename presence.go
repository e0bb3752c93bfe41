package holdfast

import (
	"log/slog"
	"os"
	"strconv"
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
	c.background(func() {
		_, err := c.run(c.life, script.Announce, []string{c.clientKey()}, c.introduction(presenceTTL))
		if err != nil && !c.isClosing() {
			c.tell(news{log: func(log *slog.Logger) {
				log.Debug("holdfast: client not announced", "client", c.id, "error", err)
			}})
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		if !c.isClosing() {
			c.presence = time.AfterFunc(presenceEvery, c.announce)
		}
	})
}

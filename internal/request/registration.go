package request

import (
	"context"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/script"
)

// The record of a client outlives three refreshes. So a short failure does not hide who a
// holder is, and the record ends soon after its process.
const (
	registrationTTL = 15 * time.Minute
	refreshEvery    = 5 * time.Minute
)

// started is when this process began to use the library. Only people read it.
var started = time.Now()

// Registration registers a client at the server, so that people see which process holds a
// lock. Nothing depends on it, and no call waits for it.
type Registration struct {
	sender  *Sender
	key     string
	app     string
	version string
	failed  func(err error)

	begun atomic.Bool
	mu    sync.Mutex
	timer *time.Timer // nil before the first refresh
}

// NewRegistration makes the registration of a client. It calls failed when a refresh fails;
// the next refresh tries again.
func NewRegistration(s *Sender, id, app, version string, failed func(err error)) *Registration {
	return &Registration{
		sender: s, key: wire.ClientKey(s.Prefix, id), app: app, version: version, failed: failed,
	}
}

// args are what the client says of itself. They contain no secret.
func (r *Registration) args(ttl time.Duration) []string {
	host, err := os.Hostname()
	if err != nil || host == "" {
		host = "unknown"
	}
	return []string{
		wire.Millis(ttl), wire.Encode(r.app), wire.Encode(host), strconv.Itoa(os.Getpid()),
		r.version, strconv.FormatInt(started.UnixMilli(), 10),
	}
}

// Start registers the client with its first acquisition, and keeps it registered.
func (r *Registration) Start() {
	if !r.begun.Load() && !r.begun.Swap(true) {
		r.refresh()
	}
}

// refresh registers the client again, in the background.
func (r *Registration) refresh() {
	life := r.sender.Life
	life.Go(registrationLabel, func() {
		_, err := r.sender.Run(life.Context(), script.RegisterClient, []string{r.key}, r.args(registrationTTL))
		if err != nil && !life.IsClosing() {
			r.failed(err)
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		if !life.IsClosing() { // else the timer would outlive Stop
			r.timer = time.AfterFunc(refreshEvery, r.refresh)
		}
	})
}

// Stop ends the refreshes of a client that is closing.
func (r *Registration) Stop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.timer != nil {
		r.timer.Stop()
	}
}

// End removes the client's record now instead of in a quarter of an hour. Nothing depends on
// it.
func (r *Registration) End(ctx context.Context) {
	if r.begun.Load() {
		_, _ = r.sender.Run(ctx, script.RegisterClient, []string{r.key}, r.args(time.Millisecond))
	}
}

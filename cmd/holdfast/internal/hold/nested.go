package hold

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/target"
)

// surround notes what the command will find about its lock, and which runs there are around this one.
func (r *session) surround() {
	chain := strings.Fields(os.Getenv(envChain))
	h := heldLock{names: r.names, mode: r.mode(), owner: r.owner, ttl: time.Duration(r.ttl),
		server: r.server.Public, prefix: r.server.Inner(), inside: r.server.Inside}
	if r.permits > 0 {
		h.permits, h.limit = r.weight, r.permits
	}
	for _, name := range r.names {
		key := r.server.Key(name)
		if r.Foreign() && !r.Bridge {
			key = name
		}
		h.keys = append(h.keys, key)
		if r.server.Old != nil {
			chain = append(chain, foreignLink(r.server.NameIn(r.server.Old, name)), clientOf(r.server.Old.ID()))
		}
		word := link(key)
		if r.server.ByName {
			word = foreignLink(name)
		}
		chain = append(chain, word, clientOf(r.server.Client.ID()))
	}
	h.chain = strings.Join(chain, " ")
	r.held = h
}

// foreignLink is the word of a chain for a lock in another library's form. No native key is like it.
func foreignLink(name string) string { return link("{" + url.PathEscape(name) + "}") }

// insideItself refuses to wait for a lock that an outer run holds: that would never end. Between
// readers, and with permits, it ends unless a third client waits in between. The environment names the
// clients of the outer runs, and the server says whether one of them holds the lock: an outer run may have
// ended, and a server has many addresses. If the server does not say, the acquisition meets the same failure.
func (r *session) insideItself(ctx context.Context) error {
	clients := clientsOf(os.Getenv(envChain))
	if len(clients) == 0 {
		return nil
	}
	for _, name := range r.names {
		for _, client := range r.server.Clients() {
			limited, cancel := context.WithTimeout(ctx, target.CloseTimeout)
			lock, err := client.Holders(limited, r.server.NameIn(client, name))
			cancel()
			if err == nil && heldAround(lock, clients, r.owner) && !r.besideHolders(lock) {
				return r.wouldDeadlock(name)
			}
		}
	}
	return nil
}

// besideHolders reports whether the wait of holdfast wait may end although the holders go on: until a reader would get
// in, or until permits are free.
func (r *session) besideHolders(lock holdfast.LockInfo) bool {
	return r.awaits && r.mode() == lock.Holders[0].Mode && r.mode() != "exclusive"
}

// nestedError refuses a run inside a run of the same lock.
type nestedError struct{ refusal *exit.Error }

func (e *nestedError) Error() string { return e.refusal.Error() }

func (r *session) wouldDeadlock(name string) error {
	hint := "run the inner command without holdfast, or use another lock name"
	if r.awaits {
		hint = "leave the wait out: the lock is free when that run has ended"
	} else if r.mode() == "exclusive" && !r.Foreign() && r.server.Quorum == nil && len(r.names) == 1 {
		hint += "; two runs with the same --owner NAME hold the lock together"
	}
	return &nestedError{exit.With(exit.CodeBusy,
		fmt.Errorf("would deadlock: %q is held by the holdfast run around this one", name), hint)}
}

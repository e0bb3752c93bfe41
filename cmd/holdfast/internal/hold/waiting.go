package hold

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/proc"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/say"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/target"
	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/observe"
)

// showHolderAfter is how long a person at a terminal waits before the tool shows the
// holder.
const showHolderAfter = 500 * time.Millisecond

// showHolderLater is the same without a terminal, where it is said once: cron mails each line, and somebody who reads a
// log wants to know why nothing happens.
const showHolderLater = 5 * time.Second

// acquire acquires the lock. It returns the signal that ended the waiting, if one
// did: then nothing is held, and closing the server leaves the wait queue.
func (r *session) acquire(by way) (os.Signal, error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if r.splay > 0 {
		if sig := r.sleep(rand.N(time.Duration(r.splay))); sig != nil {
			return sig, nil
		}
	}
	options := []holdfast.LockOption{holdfast.Tags(r.tags), holdfast.LockDelay(time.Duration(r.lockDelay))}
	if r.limited {
		options = append(options, holdfast.MaxWait(time.Duration(r.wait)))
	}
	if r.noRenew {
		options = append(options, holdfast.NoRenewal())
	}
	if r.breakDeadlock {
		options = append(options, holdfast.BreakDeadlock())
	}
	began := clock.Now()
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err = r.insideItself(ctx); err != nil {
			return
		}
		get := by(options)
		r.lease, err = get(ctx, false)
		if r.wait > 0 && time.Duration(r.wait) < target.CloseTimeout && cutShort(err) {
			// The limit may have been shorter than a request takes, which says nothing
			// about the lock or the server. So try once, as -n does.
			r.lease, err = get(ctx, true)
			if held, ok := errors.AsType[*holdfast.HeldError](err); ok {
				held.Waited = clock.Now() - began
			}
		}
	}()
	end := r.watchServer(true)
	sig := r.waitOn(ctx, done)
	end()
	cancel()
	<-done
	if err != nil {
		return sig, err
	}
	if sig != nil {
		// The grant came after the signal. The command has not run.
		r.releaseOrKeep(0) //nolint:errcheck // closing the client is the second try
		return sig, nil
	}
	if err := r.confirm(); err != nil {
		return nil, err
	}
	r.begun(clock.Now() - began)
	return nil, nil
}

// begun notes and reports that we hold the lock.
func (r *session) begun(waited time.Duration) {
	r.since, r.held.at, r.held.tokens = clock.Now(), time.Now(), tokensOf(r.lease, r.names)
	tokens := r.held.tokenTexts()
	token := "token " + strings.Join(tokens, ", ")
	if r.Foreign() && !r.Bridge {
		token = "without a token: " + r.Wire + " has none"
	}
	r.say.Infof("acquired %s in %v, %s", quoted(r.names), waited.Round(time.Millisecond), token)
	ev := event{Event: "acquired", Token: tokens[0], WaitedMS: millis(waited)}
	if len(tokens) > 1 {
		ev.Tokens = tokens
	}
	r.events.emit(ev)
}

// confirm extends the lease to its TTL before the command begins. A pushed grant
// lasts for less until it is confirmed, and the command must be stopped before its
// lease can expire. If the request gets no answer, the renewals repeat it.
func (r *session) confirm() error {
	ttl := time.Duration(r.ttl)
	short, ok := r.lease.(extender)
	if !ok || r.lease.Remaining() >= ttl/2 {
		return nil
	}
	err := short.Extend(context.Background(), ttl)
	if errors.Is(err, holdfast.ErrNotHeld) {
		return err
	}
	return nil
}

// waitOn waits until done is closed, or until a signal comes that ends us. It shows
// the holder: with --verbose at once, at a terminal after a moment, and elsewhere once.
func (r *session) waitOn(ctx context.Context, done <-chan struct{}) os.Signal {
	var late <-chan time.Time
	wanted, told := r.names[0], false
	for {
		select {
		case <-done:
			return nil
		case sig := <-r.signals:
			if proc.Ends(sig) {
				return sig
			}
		case e := <-r.waiting:
			switch e.Kind { //nolint:exhaustive // the observer passes on these only
			case observe.EventAway:
				r.isAway(e.Err)
				continue
			case observe.EventRenew, observe.EventRelease:
				continue
			case observe.EventDeadlock:
				r.showDeadlock(e.Err)
				continue
			}
			r.events.emit(event{Event: "waiting", Position: e.Position})
			wanted = e.Name
			switch {
			case r.say.Level >= say.Verbose:
				go r.showHolder(ctx, wanted, e.Position)
			case r.say.Level == say.Normal && r.say.Terminal:
				late = time.After(showHolderAfter)
			case r.say.Level == say.Normal && late == nil && !told:
				late = time.After(showHolderLater)
			}
		case <-late:
			late, told = nil, true
			go r.showHolder(ctx, wanted, 0)
		}
	}
}

// sleep waits for d, or until a signal comes that ends us.
func (r *session) sleep(d time.Duration) os.Signal {
	over := make(chan struct{})
	timer := time.AfterFunc(d, func() { close(over) })
	defer timer.Stop()
	return r.waitOn(context.Background(), over)
}

// cutShort reports that a wait ended before the server could answer, for lack of time
// only.
func cutShort(err error) bool {
	held, ok := errors.AsType[*holdfast.HeldError](err)
	if !ok || held.HeldBy != "" {
		return false
	}
	late, ok := errors.AsType[net.Error](held.Err)
	return held.Err == nil || ok && late.Timeout()
}

// showHolder prints the holder of the lock that we wait for.
func (r *session) showHolder(ctx context.Context, name string, position int) {
	text := fmt.Sprintf("waiting for %q", name)
	if position > 0 {
		text += fmt.Sprintf(", position %d", position)
	}
	if who := holdersOf(ctx, r.server, name); who != "" {
		text += ", " + who
	}
	if ctx.Err() == nil {
		r.say.Noticef("%s", text)
	}
}

// isAway passes on that a request got no answer. It does not block: one report is enough.
func (r *session) isAway(err error) {
	select {
	case r.away <- err:
	default:
	}
}

// showBusy prints the holder of the lock that we did not get.
func (r *session) showBusy(err error) {
	if r.say.Level < say.Normal {
		return
	}
	name := r.names[0]
	held, ok := errors.AsType[*holdfast.HeldError](err)
	if ok && held.Name != "" {
		name = held.Name // one of several
	}
	ctx, cancel := context.WithTimeout(context.Background(), target.CloseTimeout)
	defer cancel()
	text := fmt.Sprintf("%q is %s", name, cmp.Or(holdersOf(ctx, r.server, name), "held"))
	if ok && held.Waited > 0 {
		text += fmt.Sprintf("; waited %v", held.Waited.Round(time.Millisecond))
	}
	r.say.Noticef("%s", text)
}

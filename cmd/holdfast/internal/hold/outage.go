package hold

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/describe"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/target"
)

const (
	// firstTold is how long a server must be silent before a wait says so: a failover, or a connection that
	// breaks, is over sooner.
	firstTold = 3 * time.Second
	// toldAgain is the least time between two messages where no person reads them at once: cron mails each line,
	// and a log keeps it.
	toldAgain = time.Minute
	// toldAgainToPeople is the same at a terminal.
	toldAgainToPeople = 15 * time.Second
)

// outage decides when a wait for a server that does not answer is told. It is pure: it is given the time.
//
// For example, a wait begins at 12:00:00, and its first request gets no answer. It is told at 12:00:03, and without
// a terminal again at 12:01:03 and so on. If the server answers in between, the next outage begins anew, but is not
// told before a minute has passed since the last message.
type outage struct {
	again time.Duration // the least time between two messages
	since time.Time     // the first request without an answer; zero: the server answers, as far as known
	told  time.Time     // the last message; zero: none
}

// away notes a request that got no answer.
func (o *outage) away(now time.Time) {
	if o.since.IsZero() {
		o.since = now
	}
}

// look judges whether the server has answered at the moment now. It returns whether that is told, and the time
// until the next look.
func (o *outage) look(now time.Time, answers bool) (tell bool, next time.Duration) {
	if answers {
		o.since = time.Time{}
		return false, o.again
	}
	o.away(now)
	due := o.since.Add(firstTold)
	if again := o.told.Add(o.again); !o.told.IsZero() && again.After(due) {
		due = again
	}
	if now.Before(due) {
		return false, due.Sub(now)
	}
	o.told = now
	return true, o.again
}

// vigil looks at the server while we wait, and says if it does not answer. The library reports that a wait begins
// without a server, and does not report that the server is back, or that it goes away while we stand in the queue.
type vigil struct {
	hold    *session
	outage  outage
	until   time.Time // when the wait gives up; zero: never
	idle    bool      // look also if the library has not reported that the server is away
	refused error     // the last report, if it was a refusal: a request that only reads may be answered all the same
}

// watchServer begins a vigil. end ends it.
func (r *session) watchServer(idle bool) (end func()) {
	v := &vigil{hold: r, idle: idle, outage: outage{again: toldAgain}}
	if r.say.Terminal {
		v.outage.again = toldAgainToPeople
	}
	if r.limited {
		v.until = time.Now().Add(time.Duration(r.wait))
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		v.keep(ctx)
	}()
	return func() {
		cancel()
		<-done
	}
}

// keep looks again and again until ctx ends.
func (v *vigil) keep(ctx context.Context) {
	timer := time.NewTimer(firstTold)
	defer timer.Stop()
	if !v.idle {
		timer.Stop()
	}
	for {
		select {
		case <-ctx.Done():
			return
		case err := <-v.hold.away:
			if _, is := errors.AsType[*holdfast.ServerError](err); is {
				v.refused = err
			}
			if v.outage.since.IsZero() {
				v.outage.away(time.Now())
				timer.Reset(firstTold)
			}
			continue
		case <-timer.C:
		}
		err := serverAnswers(ctx, v.hold.server, v.hold.names[0])
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			err = v.refused
		}
		tell, next := v.outage.look(time.Now(), err == nil)
		if tell {
			v.refused = nil // whether it is over, only the next request of the acquisition tells
			v.hold.say.Away(v.hold.server.Explain(v.hold.names[0], err), v.text(time.Now()))
		}
		if err != nil || v.idle {
			timer.Reset(next)
		}
	}
}

// text says for how long we have waited for the server, and when we give up.
func (v *vigil) text(now time.Time) string {
	text := fmt.Sprintf("waiting for the server for %s", describe.Length(now.Sub(v.outage.since)))
	if v.until.IsZero() {
		return text + ", without a limit"
	}
	return text + fmt.Sprintf("; holdfast gives up in %s", describe.Length(v.until.Sub(now)))
}

// answers asks the servers of each form of a lock, and returns the error if one of them does not answer. A refusal
// is an answer.
func serverAnswers(ctx context.Context, s *target.Server, name string) error {
	ctx, cancel := context.WithTimeout(ctx, target.CloseTimeout)
	defer cancel()
	for _, form := range s.Forms() {
		_, err := form.Client.Holders(ctx, s.NameIn(form.Client, name))
		if exit.Of(err) == exit.CodeUnreachable {
			return err
		}
	}
	return nil
}

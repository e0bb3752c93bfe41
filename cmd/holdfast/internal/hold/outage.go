package hold

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/describe"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/say"
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

// serverWatch looks at the server while we wait, and says if it does not answer. The library reports that a wait begins
// without a server, and does not report that the server is back, or that it goes away while we stand in the queue.
type serverWatch struct {
	hold    *session
	outage  outage
	until   time.Time // when the wait gives up; zero: never
	idle    bool      // look also if the library has not reported that the server is away
	hinted  bool      // what to do was said
	refused error     // the last report, if it was a refusal: a request that only reads may be answered all the same
}

// watchServer begins to look at the server. end ends it: nothing is said after that.
func (r *session) watchServer(idle bool) (end func()) {
	w := &serverWatch{hold: r, idle: idle, outage: outage{again: toldAgain}}
	if r.say.Terminal {
		w.outage.again = toldAgainToPeople
	}
	if r.limited {
		w.until = time.Now().Add(time.Duration(r.wait))
	}
	ctx, cancel := context.WithCancel(context.Background())
	go w.look(ctx)
	return cancel
}

// look looks again and again until ctx ends.
func (w *serverWatch) look(ctx context.Context) {
	timer := time.NewTimer(firstTold)
	defer timer.Stop()
	if !w.idle {
		timer.Stop()
	}
	for {
		select {
		case <-ctx.Done():
			return
		case err := <-w.hold.away:
			if _, is := errors.AsType[*holdfast.ServerError](err); is {
				w.refused = err
			}
			if w.outage.since.IsZero() {
				w.outage.away(time.Now())
				timer.Reset(firstTold)
			}
			continue
		case <-timer.C:
		}
		err := serverAnswers(ctx, w.hold.server, w.hold.names[0])
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			err = w.refused
		}
		tell, next := w.outage.look(time.Now(), err == nil)
		if tell {
			// Whether a refusal is over, only the next request of the acquisition tells.
			w.refused = nil
			w.say(ctx, w.hold.server.Explain(w.hold.names[0], err))
		}
		if err != nil || w.idle {
			timer.Reset(next)
		}
	}
}

// say says why the server does not serve us. What to do about it is said once.
func (w *serverWatch) say(ctx context.Context, why error) {
	text := w.text(time.Now())
	switch {
	case ctx.Err() != nil:
	case w.hinted:
		w.hold.say.Warnf("", "%s; %s", say.Plain(why), text)
	default:
		w.hinted = true
		w.hold.say.Away(why, text)
	}
}

// text says for how long we have waited for the server, and when we give up.
func (w *serverWatch) text(now time.Time) string {
	text := fmt.Sprintf("waiting for the server for %s", describe.Length(now.Sub(w.outage.since)))
	if w.until.IsZero() {
		return text + ", without a limit"
	}
	return text + fmt.Sprintf("; holdfast gives up in %s", describe.Length(w.until.Sub(now)))
}

// serverAnswers asks the servers of each form of a lock, and returns the error if one of them does not answer. A
// refusal is an answer.
func serverAnswers(ctx context.Context, s *target.Server, name string) error {
	ctx, cancel := context.WithTimeout(ctx, target.CloseTimeout)
	defer cancel()
	for _, c := range s.Clients() {
		_, err := c.Holders(ctx, s.NameIn(c, name))
		if exit.Of(err) == exit.CodeUnreachable {
			return err
		}
	}
	return nil
}

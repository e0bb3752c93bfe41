package measure

import (
	"context"
	"errors"
	"strconv"
	"strings"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/observe"
)

// Labels are the values of the attributes of one sample. Those that do not apply are empty.
type Labels struct {
	Mode, Outcome, End, Reason, Cause, Script, Group string
	Waited                                           bool
}

// textOf returns the label of an attribute that has text.
func textOf(l *Labels, k Key) *string {
	switch k {
	case KeyMode:
		return &l.Mode
	case KeyOutcome:
		return &l.Outcome
	case KeyEnd:
		return &l.End
	case KeyReason:
		return &l.Reason
	case KeyCause:
		return &l.Cause
	case KeyScript:
		return &l.Script
	case KeyGroup:
		return &l.Group
	case KeyWaited: // it has none
	}
	panic("BUG: measure: no value for " + string(k))
}

// Value returns the value of an attribute.
func (l Labels) Value(k Key) string {
	if k == KeyWaited {
		return strconv.FormatBool(l.Waited)
	}
	return *textOf(&l, k)
}

// Only returns the labels that the metric has, and clears the others.
func (l Labels) Only(m *Metric) Labels {
	var kept Labels
	for _, k := range m.Attributes {
		if k == KeyWaited {
			kept.Waited = l.Waited
		} else {
			*textOf(&kept, k) = *textOf(&l, k)
		}
	}
	return kept
}

// Recorder receives samples: a value to add to a counter, or to put into a histogram. ctx
// is never nil.
type Recorder interface {
	Record(ctx context.Context, metric ID, value float64, labels Labels)
}

// Event records what an event changes. group may be nil.
func Event(e observe.Event, group func(name string) string, to Recorder) {
	ctx := e.Context
	if ctx == nil {
		ctx = context.Background()
	}
	l := Labels{Mode: e.Mode}
	if group != nil {
		l.Group = group(e.Name)
	}
	switch e.Kind {
	case observe.EventWait:
		if !e.Waited { // the first part of a wait
			to.Record(ctx, Waiting, 1, l)
			to.Record(ctx, Contended, 1, l)
		}
	case observe.EventWake:
		l.Cause = e.Wake.String()
		to.Record(ctx, Wakeups, 1, l)
	case observe.EventGrant:
		acquired(ctx, e, l, to)
		to.Record(ctx, Held, 1, l)
	case observe.EventFail:
		acquired(ctx, e, l, to)
		if !e.Waited && errors.Is(e.Err, holdfast.ErrHeld) {
			to.Record(ctx, Contended, 1, l)
		}
	case observe.EventRenew:
		renewed(ctx, e, l, to)
	case observe.EventLost, observe.EventRelease, observe.EventLeak:
		ended(ctx, e, l, to)
	case observe.EventAway:
		to.Record(ctx, Away, 1, l)
	case observe.EventDeadlock:
		to.Record(ctx, Deadlocks, 1, l)
	case observe.EventPushUnavailable:
		to.Record(ctx, PushUnavailable, 1, l)
	}
}

func acquired(ctx context.Context, e observe.Event, l Labels, to Recorder) {
	if e.Waited {
		to.Record(ctx, Waiting, -1, l)
	}
	l.Waited, l.Outcome = e.Waited, Outcome(e.Err, "granted")
	to.Record(ctx, AcquireDuration, e.Wait.Seconds(), l)
}

func renewed(ctx context.Context, e observe.Event, l Labels, to Recorder) {
	l.Outcome = sent(e.Err, "confirmed")
	to.Record(ctx, Renewals, 1, l)
	if e.Err != nil {
		return
	}
	to.Record(ctx, RenewLag, e.Lag.Seconds(), l)
	if e.TTL > 0 {
		left := max(e.Remaining, 0).Seconds()
		to.Record(ctx, RenewRemaining, left, l)
		to.Record(ctx, RenewRemainingRatio, left/e.TTL.Seconds(), l)
	}
}

func ended(ctx context.Context, e observe.Event, l Labels, to Recorder) {
	to.Record(ctx, Held, -1, l)
	l.End = End(e.Kind)
	to.Record(ctx, HoldDuration, e.Held.Seconds(), l)
	if e.Kind == observe.EventLost {
		l.Reason = Reason(e.Err)
		to.Record(ctx, Lost, 1, l)
	}
	if e.Kind == observe.EventLeak {
		to.Record(ctx, Leaked, 1, l)
	}
}

// Start records zeros that need no event. An observer calls it once.
func Start(to Recorder) { to.Record(context.Background(), PushUnavailable, 0, Labels{}) }

// First records zeros when a time series of a metric begins. An observer calls it before
// the first sample of each time series. Prometheus does not see a counter rise that begins
// with 1, so an alert on the first loss needs the zero before it.
func First(ctx context.Context, id ID, l Labels, to Recorder) {
	if id != Held {
		return
	}
	for _, reason := range []holdfast.LossReason{
		holdfast.LossExpired, holdfast.LossNotHeld, holdfast.LossEvicted, holdfast.LossLimit,
	} {
		l.Reason = word(reason)
		to.Record(ctx, Lost, 0, l)
	}
	to.Record(ctx, Leaked, 0, l)
	to.Record(ctx, Away, 0, l)
	to.Record(ctx, Deadlocks, 0, l)
	to.Record(ctx, Contended, 0, l)
}

// Request records one request.
func Request(r observe.Request, to Recorder) {
	ctx := r.Context
	if ctx == nil {
		ctx = context.Background()
	}
	to.Record(ctx, RequestDuration, r.Took.Seconds(), Labels{Script: r.Script, Outcome: sent(r.Err, "answered")})
}

// sent is the word for how a request ended. Without an answer, the server may have run it.
func sent(err error, good string) string {
	word := Outcome(err, good)
	if word == "error" || word == "deadline" {
		return "unknown"
	}
	return word
}

// End is the word for how a lease ended.
func End(k observe.EventKind) string {
	switch k {
	case observe.EventLost:
		return "lost"
	case observe.EventLeak:
		return "leaked"
	default:
		return "released"
	}
}

// Reason is the word for why a lease was lost.
func Reason(err error) string {
	var lost *holdfast.LostError
	if !errors.As(err, &lost) {
		return "other"
	}
	return word(lost.Reason)
}

func word(reason holdfast.LossReason) string { return strings.ReplaceAll(string(reason), " ", "_") }

// outcomes are the words for errors. The first one that applies counts: an error of a wait
// often says several things, and the cause that an operator can remove comes first.
var outcomes = []struct {
	err  error
	word string
}{
	{holdfast.ErrHeld, "held"},
	{holdfast.ErrClosed, "closed"},
	{context.Canceled, "canceled"},
	{holdfast.ErrUnreachable, "unreachable"},
	{holdfast.ErrNotAcked, "not_acked"},
	{holdfast.ErrUnknownOutcome, "unknown"},
	{context.DeadlineExceeded, "deadline"},
	{holdfast.ErrLost, "lost"},
}

// Outcome is the word for how an operation ended: good, or the kind of its error.
func Outcome(err error, good string) string {
	if err == nil {
		return good
	}
	for _, o := range outcomes {
		if errors.Is(err, o.err) {
			return o.word
		}
	}
	var refused *holdfast.ServerError
	if errors.As(err, &refused) {
		return "refused"
	}
	return "error"
}

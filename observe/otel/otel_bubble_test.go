package otel_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/codes"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/observe"
	"github.com/holdfast-go/holdfast/observe/internal/measure"
	"github.com/holdfast-go/holdfast/observe/otel"
)

var background = context.Background()

// lockLater calls Lock in a goroutine of its own, and waits until the call waits.
func (w *world) lockLater(ctx context.Context, m *holdfast.Mutex) (granted func() *holdfast.Lease) {
	done := make(chan *holdfast.Lease, 1)
	go func() {
		l, err := m.Lock(ctx)
		if err != nil {
			w.Error(err)
		}
		done <- l
	}()
	synctest.Wait()
	return func() *holdfast.Lease { return <-done }
}

// One process holds a lock, another waits for it, and gets it by a push.
func TestMetricsOfAHandOver(t *testing.T) {
	bubble(t, otel.Config{}, func(w *world) {
		a, b := w.client().Mutex("x"), w.client().Mutex("x")
		first := w.lock(background, a)
		w.wantSum("holdfast.held", "mode=exclusive", 1)
		granted := w.lockLater(background, b)
		w.wantSum("holdfast.waiting", "mode=exclusive", 1)
		_, err := a.TryLock(background)
		assert.MustTrue(t, errors.Is(err, holdfast.ErrHeld), "%v", err)
		time.Sleep(4 * time.Second)
		w.release(first)
		second := granted()
		w.wantSum("holdfast.waiting", "mode=exclusive", 0)
		time.Sleep(3 * time.Second)
		w.release(second)

		w.wantSum("holdfast.acquire.duration", "mode=exclusive outcome=granted waited=true", 4)
		w.wantCount("holdfast.acquire.duration", "mode=exclusive outcome=granted waited=true", 1)
		w.wantCount("holdfast.acquire.duration", "mode=exclusive outcome=granted waited=false", 1)
		w.wantCount("holdfast.acquire.duration", "mode=exclusive outcome=held waited=false", 1)
		w.wantSum("holdfast.hold.duration", "end=released mode=exclusive", 7)
		w.wantCount("holdfast.hold.duration", "end=released mode=exclusive", 2)
		w.wantSum("holdfast.contended", "mode=exclusive", 2)
		w.wantSum("holdfast.wakeups", "cause=push mode=exclusive", 1)
		w.wantSum("holdfast.held", "mode=exclusive", 0)
		w.wantCount("holdfast.request.duration", "outcome=answered script=release", 2)
	})
}

// A lease is renewed, then no renewal is answered, and the lease is lost.
func TestMetricsOfRenewalsAndALoss(t *testing.T) {
	bubble(t, otel.Config{}, func(w *world) {
		l := w.lock(background, w.client().Mutex("x", holdfast.TTL(30*time.Second)))
		time.Sleep(11 * time.Second)
		w.wantSum("holdfast.renewals", "mode=exclusive outcome=confirmed", 1)
		w.wantCount("holdfast.renew.lag", "mode=exclusive", 1)
		remaining := w.points("holdfast.renew.remaining")["mode=exclusive"].sum
		assert.False(t, remaining < 18 || remaining > 21,
			"%v s of the lease were left at the renewal, want about two thirds of 30 s", remaining)
		w.wantSum("holdfast.renew.remaining_ratio", "mode=exclusive", remaining/30)

		w.FailRequest(func(script string, _ []string) error {
			if script == "renew" {
				return errBroken
			}
			return nil
		})
		<-l.Context().Done()
		synctest.Wait()
		w.FailRequest(nil)
		w.wantSum("holdfast.lost", "mode=exclusive reason=expired", 1)
		w.wantSum("holdfast.lost", "mode=exclusive reason=evicted", 0)
		w.wantCount("holdfast.hold.duration", "end=lost mode=exclusive", 1)
		w.wantSum("holdfast.held", "mode=exclusive", 0)
		if failed := w.points("holdfast.renewals")["mode=exclusive outcome=unknown"].sum; failed == 0 {
			t.Errorf("no failed renewal is counted: %v", w.points("holdfast.renewals"))
		}
		w.wantCount("holdfast.renew.lag", "mode=exclusive", 1)
		if n := w.points("holdfast.request.duration")["outcome=unknown script=renew"].count; n == 0 {
			t.Errorf("no renewal without an answer is counted: %v", w.points("holdfast.request.duration"))
		}
	})
}

// Every metric of the table exists, with its unit, its help and the attributes of the
// table. None of them has the name of a lock.
func TestEveryMetricIsReported(t *testing.T) {
	bubble(t, otel.Config{}, func(w *world) {
		const secret = "invoice-of-ann"
		for kind := observe.EventWait; kind <= observe.EventDeadlock; kind++ {
			w.observer.Observe(observe.Event{
				Kind: kind, Context: background, Name: secret, Mode: "shared", HolderID: "c/1", Lease: 1,
				TTL: time.Second, Remaining: time.Millisecond,
				Err: map[bool]error{true: errBroken}[kind == observe.EventFail || kind == observe.EventLost],
			})
		}
		w.observer.ObserveRequest(observe.Request{Context: background, Script: "acquire"})
		all := w.metrics()
		assert.Equal(t, len(all), len(measure.Metrics), "metrics")
		for _, want := range measure.Metrics {
			got, ok := all[want.Name]
			assert.True(t, ok && got.Unit == want.Unit && got.Description == want.Help,
				"%s is reported as %v %q %q", want.Name, ok, got.Unit, got.Description)
			for attributes := range w.points(want.Name) {
				if n := len(strings.Fields(attributes)); attributes != "" && n != len(want.Attributes)-without(want) {
					t.Errorf("%s has the attributes %q, want those of %v", want.Name, attributes, want.Attributes)
				}
			}
			if sum, ok := got.Data.(metricdata.Sum[int64]); ok && sum.IsMonotonic != (want.Kind == measure.Counter) {
				t.Errorf("%s is monotonic: %v", want.Name, sum.IsMonotonic)
			}
		}
		text := fmt.Sprint(all)
		assert.True(t, !strings.Contains(text, secret), "the name of a lock is in a metric: %s", text)
	})
}

// without is 1 for a metric that may have a group: that attribute is there on demand.
func without(m measure.Metric) int {
	if slices.Contains(m.Attributes, measure.KeyGroup) {
		return 1
	}
	return 0
}

func TestNamesAreGroupedOnDemand(t *testing.T) {
	group := func(name string) string { return strings.SplitN(name, "/", 2)[0] }
	bubble(t, otel.Config{Group: group}, func(w *world) {
		c := w.client()
		for _, name := range []string{"invoice/1", "invoice/2", "user/1"} {
			w.release(w.lock(background, c.Mutex(name)))
		}
		w.wantCount("holdfast.hold.duration", "end=released group=invoice mode=exclusive", 2)
		w.wantCount("holdfast.hold.duration", "end=released group=user mode=exclusive", 1)
	})
}

// Whatever happens, nothing is held and nothing waits when all calls have ended.
func TestTheGaugesReturnToZero(t *testing.T) {
	bubble(t, otel.Config{}, func(w *world) {
		a, b := w.client(), w.client()
		ctx, cancel := context.WithCancel(background)
		rw := a.RWMutex("rw")
		read, err := rw.RLock(background)
		assert.Must(t, err)
		assert.Must(t, read.Upgrade(background))
		held := w.lock(background, a.Mutex("x"))
		failed := make(chan error, 1)
		go func() {
			_, err := b.Mutex("x").Lock(ctx)
			failed <- err
		}()
		synctest.Wait()
		w.wantSum("holdfast.waiting", "mode=exclusive", 1)
		cancel()
		assert.Is(t, <-failed, context.Canceled)
		assert.Is(t, assert.Err(b.Mutex("x", holdfast.MaxWait(time.Second)).Lock(background)), holdfast.ErrHeld)
		w.wantCount("holdfast.acquire.duration", "mode=exclusive outcome=canceled waited=true", 1)
		w.wantCount("holdfast.acquire.duration", "mode=exclusive outcome=held waited=true", 1)
		w.release(read)
		_ = held // Close releases it
		assert.Must(t, a.Close(background))
		for _, gauge := range []string{"holdfast.held", "holdfast.waiting"} {
			for attributes, p := range w.points(gauge) {
				assert.Equal(t, p.sum, 0, "%s of %q at the end", gauge, attributes)
			}
		}
	})
}

// A program that wants metrics only pays for nothing else.
func TestWithoutSpansAnEventAllocatesNothing(t *testing.T) {
	provider := sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewManualReader()))
	o, err := otel.New(otel.Config{MeterProvider: provider, TracerProvider: noop.NewTracerProvider()})
	assert.Must(t, err)
	e := observe.Event{Kind: observe.EventGrant, Context: background, Mode: "exclusive", HolderID: "c/1", Lease: 1}
	n := testing.AllocsPerRun(100, func() {
		e.Kind = observe.EventGrant
		o.Observe(e)
		e.Kind = observe.EventRelease
		o.Observe(e)
	})
	_, open := o.Remembered()
	assert.False(t, n > 0 || open > 0, "an acquisition and its end allocate %v times, and leave %d spans", n, open)
}

// The spans of an acquisition and of its hold belong to the caller's trace, and last as
// long as the wait and the hold.
func TestSpansBelongToTheCaller(t *testing.T) {
	bubble(t, otel.Config{}, func(w *world) {
		a, b := w.client().Mutex("x"), w.client().Mutex("x")
		first := w.lock(background, a)
		ctx, parent := w.tracer.Start(background, "handle request")
		granted := w.lockLater(ctx, b)
		time.Sleep(2 * time.Second)
		w.release(first)
		l := granted()
		time.Sleep(5 * time.Second)
		w.release(l)
		parent.End()

		acquire, hold := w.of("acquire lock", parent), w.of("hold lock", parent)
		if took(acquire) != 2*time.Second || took(hold) != 5*time.Second {
			t.Errorf("the spans last %v and %v, want 2s and 5s", took(acquire), took(hold))
		}
		assert.True(t, hold.StartTime().Equal(acquire.EndTime()),
			"the hold does not begin where the acquisition ends")
		for _, s := range []sdktrace.ReadOnlySpan{acquire, hold} {
			if value(s, "holdfast.name") != "x" || value(s, "holdfast.token") != fmt.Sprint(l.Token()) ||
				value(s, "holdfast.holder_id") != l.HolderID() || value(s, "holdfast.mode") != "exclusive" {
				t.Errorf("%s has the attributes %v", s.Name(), s.Attributes())
			}
			assert.True(t, s.Status().Code == codes.Unset, "%s has the status %v", s.Name(), s.Status())
		}
		if value(acquire, "holdfast.wake") != "push" || value(acquire, "holdfast.waited") != "true" {
			t.Errorf("the acquisition has the attributes %v", acquire.Attributes())
		}
		if value(hold, "holdfast.end") != "released" {
			t.Errorf("the hold has the attributes %v", hold.Attributes())
		}
	})
}

// linked asserts which acquisitions under the parent have a link to a hold of the other
// trace.
func (w *world) linked(from, to trace.Span, want bool) {
	w.Helper()
	hold := w.of("hold lock", to).SpanContext()
	links := w.of("acquire lock", from).Links()
	switch {
	case !want && len(links) == 0:
	case want && len(links) == 1 && links[0].SpanContext.SpanID() == hold.SpanID() &&
		links[0].SpanContext.TraceID() == to.SpanContext().TraceID():
	default:
		w.Errorf("the links are %v, want one to %v: %v", links, hold, want)
	}
}

// An acquisition that waited has a link to the hold of the goroutine that released to it:
// the hold itself passed on, or the turn to ask the server.
func TestASpanThatWaitedIsLinkedToTheHoldBefore(t *testing.T) {
	for name, held := range map[string]time.Duration{"hand-over": time.Millisecond, "turn": time.Second} {
		t.Run(name, func(t *testing.T) {
			bubble(t, otel.Config{}, func(w *world) {
				client := w.client()
				m := client.Mutex("x")
				ctxA, a := w.tracer.Start(background, "a")
				defer a.End()
				ctxB, b := w.tracer.Start(background, "b")
				defer b.End()
				ctxC, c := w.tracer.Start(background, "c")
				defer c.End()
				first := w.lock(ctxA, m)
				granted := w.lockLater(ctxB, m)
				time.Sleep(held)
				w.release(first)
				w.release(granted())
				w.release(w.lock(ctxC, m))
				w.linked(b, a, true)
				w.linked(c, b, false)
				local := value(w.of("acquire lock", b), "holdfast.local")
				assert.Equal(t, local, fmt.Sprint(name == "hand-over"), "local hand-over")
			})
		})
	}
}

// Another client had the lock in between, or may have had it: then the goroutine that
// released to this one is not known.
func TestNoLinkPastAnotherHolder(t *testing.T) {
	bubble(t, otel.Config{}, func(w *world) {
		here, there := w.client().Mutex("x"), w.stranger().Mutex("x")
		ctxA, a := w.tracer.Start(background, "a")
		defer a.End()
		ctxB, b := w.tracer.Start(background, "b")
		defer b.End()
		w.release(w.lock(ctxA, here))
		other := w.lock(background, there)
		granted := w.lockLater(ctxB, here)
		w.release(other)
		w.release(granted())
		w.linked(b, a, false)
	})
	// The turn passes from a to b, but the server grants the lock to the other client first.
	bubble(t, otel.Config{}, func(w *world) {
		here, there := w.client().Mutex("x"), w.stranger().Mutex("x")
		ctxA, a := w.tracer.Start(background, "a")
		defer a.End()
		ctxB, b := w.tracer.Start(background, "b")
		defer b.End()
		first := w.lock(ctxA, here)
		other := w.lockLater(background, there)
		granted := w.lockLater(ctxB, here)
		time.Sleep(time.Second)
		w.release(first)
		l := other()
		synctest.Wait()
		w.release(l)
		w.release(granted())
		w.linked(b, a, false)
		if wake := value(w.of("acquire lock", b), "holdfast.wake"); wake != "local" {
			t.Errorf("the wait ended with %s: this test wants one that begins in the process", wake)
		}
	})
}

// What decides about a link, case by case: events that differ in one thing from those of a
// goroutine that was woken by the end of the hold before.
func TestNoLinkInDoubt(t *testing.T) {
	for name, c := range map[string]struct {
		change func(e *observe.Event)
		linked bool
	}{
		"woken":          {func(*observe.Event) {}, true},
		"passed on":      {func(e *observe.Event) { e.Local = true }, true},
		"did not wait":   {func(e *observe.Event) { e.Waited = false }, false},
		"a push":         {func(e *observe.Event) { e.Wake = observe.WakePush }, false},
		"another client": {func(e *observe.Event) { e.HolderID = "other/2" }, false},
		"another lock":   {func(e *observe.Event) { e.Name = "y" }, false},
		"began later":    {func(e *observe.Event) { e.Wait = 0 }, false},
		"not the next":   {func(e *observe.Event) { e.Local, e.Token = true, 9 }, false},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, otel.Config{}, func(w *world) {
				e := observe.Event{
					Kind: observe.EventGrant, Context: background, Name: "x", Mode: "exclusive", HolderID: "c/1",
					Lease: 1, Token: 7,
				}
				w.observer.Observe(e)
				e.Kind = observe.EventRelease
				w.observer.Observe(e)
				time.Sleep(time.Millisecond)
				e.Kind, e.Lease, e.Token = observe.EventGrant, 2, 8
				e.Wait, e.Waited, e.Wake = time.Second, true, observe.WakeLocal
				c.change(&e)
				w.observer.Observe(e)
				links := w.ended("acquire lock")[1].Links()
				assert.True(t, (len(links) == 1) == c.linked, "the links are %v, want one: %v", links, c.linked)
			})
		})
	}
}

func TestFailuresShowInSpans(t *testing.T) {
	bubble(t, otel.Config{}, func(w *world) {
		c := w.client()
		held := w.lock(background, c.Mutex("x", holdfast.TTL(10*time.Second)))
		ctx, tries := w.tracer.Start(background, "tries")
		_, _ = w.client().Mutex("x").TryLock(ctx)
		if s := w.of("acquire lock", tries); value(s, "error.type") != "held" || s.Status().Code != codes.Unset {
			t.Errorf("a try of a held lock has the status %v and the attributes %v", s.Status(), s.Attributes())
		}
		w.FailRequest(func(string, []string) error { return errBroken })
		ctx, fails := w.tracer.Start(background, "fails")
		_, err := c.Mutex("y").TryLock(ctx)
		s := w.of("acquire lock", fails)
		if s.Status().Code != codes.Error || s.Status().Description != err.Error() || value(s, "error.type") == "" {
			t.Errorf("a failure has the status %v and the attributes %v", s.Status(), s.Attributes())
		}
		<-held.Context().Done()
		synctest.Wait()
		w.FailRequest(nil)
		lost := w.ended("hold lock")
		if len(lost) != 1 || lost[0].Status().Code != codes.Error || value(lost[0], "holdfast.end") != "lost" ||
			value(lost[0], "holdfast.reason") != "expired" {
			t.Errorf("the hold that was lost: %v", lost)
		}
	})
}

// Spans that wait for their end do not pile up, and neither do the locks that they know.
func TestLocksAreForgotten(t *testing.T) {
	bubble(t, otel.Config{}, func(w *world) {
		for i := range 10_000 {
			e := observe.Event{
				Kind: observe.EventGrant, Context: background, Name: fmt.Sprint("lock", i), Mode: "exclusive",
				HolderID: "c/1", Lease: uint64(i), Token: 1 << 10,
			}
			w.observer.Observe(e)
			e.Kind = observe.EventLeak
			w.observer.Observe(e)
		}
		if locks, open := w.observer.Remembered(); locks > 5_000 || locks < 100 || open != 0 {
			t.Errorf("%d locks and %d open spans are remembered", locks, open)
		}
		s := w.ended("hold lock")
		assert.True(t, len(s) == 10_000 && value(s[0], "holdfast.end") == "leaked", "%d holds have ended", len(s))
	})
}

package otel

import (
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/holdfast-go/holdfast/observe"
	"github.com/holdfast-go/holdfast/observe/internal/measure"
)

// The attributes of spans that no metric has.
const (
	keyName    = attribute.Key("holdfast.name")
	keyToken   = attribute.Key("holdfast.token")
	keyHolder  = attribute.Key("holdfast.holder_id")
	keyWake    = attribute.Key("holdfast.wake")
	keyLocal   = attribute.Key("holdfast.local")
	keyLink    = attribute.Key("holdfast.link")
	keyError   = attribute.Key("error.type")
	keyMode    = attribute.Key(measure.KeyMode)
	keyWaited  = attribute.Key(measure.KeyWaited)
	keyOutcome = attribute.Key(measure.KeyOutcome)
	keyEnd     = attribute.Key(measure.KeyEnd)
	keyReason  = attribute.Key(measure.KeyReason)
)

// mostLast bounds how many locks the spans remember the last hold of. For a lock that is
// forgotten, a span has no link.
const mostLast = 4096

// leaseKey identifies a lease: clients number their leases.
type leaseKey struct {
	client string
	lease  uint64
}

// lastHold is the last exclusive hold of a lock in this process.
type lastHold struct {
	client string
	lease  uint64
	token  uint64
	span   trace.SpanContext
	ended  time.Time // zero: not yet
	broken bool      // another holder may have come after it
}

// spans makes the spans. A span of an acquisition is made when the acquisition ends. The
// span of a hold begins with the grant.
type spans struct {
	tracer trace.Tracer

	mu    sync.Mutex // guards the fields below; nothing blocks while it is held
	open  map[leaseKey]trace.Span
	last  map[string]lastHold // by the name of the lock
	order []string            // the keys of last, in the order in which they came; the oldest is at next
	next  int
}

func (s *spans) observe(e observe.Event) {
	switch e.Kind {
	case observe.EventWait:
		s.waits(e)
	case observe.EventGrant:
		s.granted(e)
	case observe.EventFail:
		s.failed(e)
	case observe.EventLost, observe.EventRelease, observe.EventLeak:
		s.ended(e)
	default: // the others belong to no span of their own
	}
}

// acquisition starts the span of an acquisition that has just ended.
func (s *spans) acquisition(e observe.Event, now time.Time, links ...trace.Link) trace.Span {
	//nolint:spancheck // the callers end it
	_, span := s.tracer.Start(e.Context, "acquire lock",
		trace.WithTimestamp(now.Add(-e.Wait)), trace.WithLinks(links...),
		trace.WithAttributes(keyName.String(e.Name), keyMode.String(e.Mode), keyWaited.Bool(e.Waited),
			keyOutcome.String(measure.Outcome(e.Err, "granted"))))
	return span //nolint:spancheck // as above
}

func (s *spans) granted(e observe.Event) {
	now := time.Now()
	client := clientOf(e.HolderID)
	var links []trace.Link
	s.mu.Lock()
	if before, ok := s.last[e.Name]; ok && before.released(e, client, now) {
		links = []trace.Link{{
			SpanContext: before.span, Attributes: []attribute.KeyValue{keyLink.String("previous_hold")},
		}}
	}
	s.mu.Unlock()
	span := s.acquisition(e, now, links...)
	identity := []attribute.KeyValue{keyToken.Int64(int64(e.Token)), keyHolder.String(e.HolderID)}
	span.SetAttributes(append(identity, keyWake.String(e.Wake.String()), keyLocal.Bool(e.Local))...)
	span.End(trace.WithTimestamp(now))

	_, hold := s.tracer.Start(e.Context, "hold lock", trace.WithTimestamp(now),
		trace.WithAttributes(append(identity, keyName.String(e.Name), keyMode.String(e.Mode))...))
	s.mu.Lock()
	defer s.mu.Unlock()
	if hold.IsRecording() {
		s.open[leaseKey{client, e.Lease}] = hold
	}
	s.remember(e.Name, lastHold{
		client: client, lease: e.Lease, token: e.Token, span: hold.SpanContext(), broken: e.Mode != "exclusive",
	})
}

// released reports whether the acquisition that ends with the grant e was woken by the end
// of the hold. The hold passed to it without a request, or the hold's end gave it the turn
// to ask the server. In any other case another process may have had the lock in between.
func (h *lastHold) released(e observe.Event, client string, now time.Time) bool {
	switch {
	case !e.Waited || e.Wake != observe.WakeLocal, h.client != client, h.broken, !h.span.IsSampled():
		return false
	case e.Local:
		return e.Token == h.token+1
	}
	return h.ended.IsZero() || !h.ended.Before(now.Add(-e.Wait))
}

// waits notes that a goroutine waits at the server. Another process has the lock then, so
// it comes between the last hold here and the next one.
func (s *spans) waits(e observe.Event) {
	if e.Local {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if h, ok := s.last[e.Name]; ok {
		h.broken = true
		s.last[e.Name] = h
	}
}

// remember stores the last hold of a lock, and forgets the lock that it has known longest
// if there are too many. The caller holds s.mu.
func (s *spans) remember(name string, h lastHold) {
	if _, known := s.last[name]; !known {
		if len(s.order) < mostLast {
			s.order = append(s.order, name)
		} else {
			delete(s.last, s.order[s.next])
			s.order[s.next] = name
			s.next = (s.next + 1) % mostLast
		}
	}
	s.last[name] = h
}

func (s *spans) failed(e observe.Event) {
	now := time.Now()
	span := s.acquisition(e, now)
	outcome := measure.Outcome(e.Err, "")
	span.SetAttributes(keyError.String(outcome))
	// The caller's own doing is not an error: a try of a lock that is held, and a context that
	// was cancelled.
	if outcome != "held" && outcome != "canceled" {
		span.SetStatus(codes.Error, e.Err.Error())
	}
	span.End(trace.WithTimestamp(now))
}

func (s *spans) ended(e observe.Event) {
	key := leaseKey{clientOf(e.HolderID), e.Lease}
	s.mu.Lock()
	span := s.open[key]
	delete(s.open, key)
	if h, ok := s.last[e.Name]; ok && h.client == key.client && h.lease == key.lease {
		h.ended = time.Now()
		s.last[e.Name] = h
	}
	s.mu.Unlock()
	if span == nil {
		return // not sampled
	}
	end := measure.End(e.Kind)
	span.SetAttributes(keyEnd.String(end), keyLocal.Bool(e.Local))
	switch e.Kind {
	case observe.EventLost:
		reason := measure.Reason(e.Err)
		span.SetAttributes(keyReason.String(reason), keyError.String(end))
		span.SetStatus(codes.Error, e.Err.Error())
	case observe.EventLeak:
		span.SetAttributes(keyError.String(end))
		span.SetStatus(codes.Error, "the lease was dropped without Release")
	default:
		if e.Err != nil {
			span.SetAttributes(keyError.String(measure.Outcome(e.Err, "")))
			span.SetStatus(codes.Error, e.Err.Error())
		}
	}
	span.End()
}

// clientOf returns the client of a holder ID.
func clientOf(holder string) string {
	client, _, _ := strings.Cut(holder, "/")
	return client
}

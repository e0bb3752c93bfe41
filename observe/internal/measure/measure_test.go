package measure

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/observe"
)

// row is the row of a metric in the table of the page.
func row(m Metric) string {
	var attributes []string
	for _, k := range m.Attributes {
		attributes = append(attributes, strings.TrimPrefix(string(k), "holdfast."))
	}
	kind := []string{"counter", "up-down counter; gauge", "histogram"}[m.Kind]
	return fmt.Sprintf("| `%s` | `%s` | %s | `%s` | %s | %s |\n",
		m.Name, m.PromName(), kind, m.Unit, strings.Join(attributes, ", "), strings.TrimSuffix(m.Help, "."))
}

func TestThePageListsEveryMetric(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "observability.md"))
	assert.Must(t, err)
	for _, m := range Metrics {
		assert.True(t, strings.Contains(string(page), row(m)), "docs/observability.md has no row:\n%s", row(m))
	}
	n := strings.Count(string(page), " | `holdfast_")
	assert.True(t, n == len(Metrics), "the page lists %d metrics, and there are %d", n, len(Metrics))
	for _, m := range Metrics {
		for _, k := range m.Attributes {
			assert.True(t, strings.Contains(string(page), "| `"+string(k)+"` "),
				"docs/observability.md does not explain the attribute %s", k)
		}
	}
}

func TestPromNames(t *testing.T) {
	for id, want := range map[ID]string{
		AcquireDuration:     "holdfast_acquire_duration_seconds",
		Held:                "holdfast_held",
		Lost:                "holdfast_lost_total",
		RenewRemainingRatio: "holdfast_renew_remaining_ratio",
	} {
		if got := Metrics[id].PromName(); got != want {
			t.Errorf("%s is called %s, want %s", Metrics[id].Name, got, want)
		}
	}
}

func TestBucketsRise(t *testing.T) {
	for _, m := range Metrics {
		if (m.Kind == Histogram) != (len(m.Buckets) > 0) || !slices.IsSorted(m.Buckets) ||
			len(slices.Compact(slices.Clone(m.Buckets))) != len(m.Buckets) {
			t.Errorf("%s has the buckets %v", m.Name, m.Buckets)
		}
	}
}

func TestOutcome(t *testing.T) {
	other := errors.New("other")
	for _, c := range []struct {
		err  error
		want string
	}{
		{nil, "good"},
		{&holdfast.HeldError{Err: holdfast.ErrUnreachable}, "held"},
		{fmt.Errorf("x: %w", holdfast.ErrClosed), "closed"},
		{fmt.Errorf("%w: %w", holdfast.ErrUnknownOutcome, context.Canceled), "canceled"},
		{fmt.Errorf("%w: %w", context.DeadlineExceeded, holdfast.ErrUnreachable), "unreachable"},
		{holdfast.ErrNotAcked, "not_acked"},
		{fmt.Errorf("%w: %w", holdfast.ErrUnknownOutcome, context.DeadlineExceeded), "unknown"},
		{context.DeadlineExceeded, "deadline"},
		{&holdfast.LostError{Reason: holdfast.LossExpired}, "lost"},
		{&holdfast.ServerError{}, "refused"},
		{other, "error"},
	} {
		assert.Equal(t, Outcome(c.err, "good"), c.want, "%v", c.err)
	}
}

func TestReason(t *testing.T) {
	for err, want := range map[error]string{
		&holdfast.LostError{Reason: holdfast.LossNotHeld}: "not_held",
		&holdfast.LostError{Reason: holdfast.LossEvicted}: "evicted",
		holdfast.ErrLost: "other",
	} {
		assert.Equal(t, Reason(err), want, "%v", err)
	}
}

// samples receives samples, as "name value".
type samples []string

func (s *samples) Record(ctx context.Context, id ID, value float64, labels Labels) {
	if ctx == nil {
		panic("BUG: a sample without a context")
	}
	kept := labels.Only(&Metrics[id])
	for _, k := range Metrics[id].Attributes {
		if kept.Value(k) != labels.Value(k) {
			panic("BUG: the label " + string(k) + " is gone")
		}
	}
	*s = append(*s, fmt.Sprint(Metrics[id].Name, " ", value))
}

func TestSamplesOfAnEvent(t *testing.T) {
	for name, c := range map[string]struct {
		event observe.Event
		want  []string
	}{
		"a first wait": {
			observe.Event{Kind: observe.EventWait}, []string{"holdfast.waiting 1", "holdfast.contended 1"},
		},
		"a second": {observe.Event{Kind: observe.EventWait, Waited: true}, nil},
		"its grant": {
			observe.Event{Kind: observe.EventGrant, Waited: true},
			[]string{"holdfast.waiting -1", "holdfast.acquire.duration 0", "holdfast.held 1"},
		},
		"a try": {
			observe.Event{Kind: observe.EventFail, Err: holdfast.ErrHeld},
			[]string{"holdfast.acquire.duration 0", "holdfast.contended 1"},
		},
		"a renewal of a pushed grant": {
			observe.Event{Kind: observe.EventRenew}, []string{"holdfast.renewals 1", "holdfast.renew.lag 0"},
		},
		"a late renewal": {
			observe.Event{Kind: observe.EventRenew, TTL: 4e9, Remaining: 1e9, Lag: 2e9},
			[]string{
				"holdfast.renewals 1", "holdfast.renew.lag 2", "holdfast.renew.remaining 1",
				"holdfast.renew.remaining_ratio 0.25",
			},
		},
		"a failed renewal": {
			observe.Event{Kind: observe.EventRenew, Err: holdfast.ErrUnreachable}, []string{"holdfast.renewals 1"},
		},
		"a leak": {
			observe.Event{Kind: observe.EventLeak, Held: 3e9},
			[]string{"holdfast.held -1", "holdfast.hold.duration 3", "holdfast.leaked 1"},
		},
		"away":   {observe.Event{Kind: observe.EventAway}, []string{"holdfast.away 1"}},
		"dead":   {observe.Event{Kind: observe.EventDeadlock}, []string{"holdfast.deadlocks 1"}},
		"pushes": {observe.Event{Kind: observe.EventPushUnavailable}, []string{"holdfast.push_unavailable 1"}},
	} {
		var got samples
		Event(c.event, nil, &got)
		assert.EqualSlices(t, got, c.want, "%s: the samples", name)
	}
}

// A time series that an alert looks at exists before the first bad event.
func TestZerosBeforeTheFirstLoss(t *testing.T) {
	var got samples
	Start(&got)
	for id := range Metrics {
		First(t.Context(), ID(id), Labels{Mode: "shared"}, &got)
	}
	want := samples{
		"holdfast.push_unavailable 0", "holdfast.lost 0", "holdfast.lost 0", "holdfast.lost 0", "holdfast.lost 0",
		"holdfast.leaked 0", "holdfast.away 0", "holdfast.deadlocks 0", "holdfast.contended 0",
	}
	assert.EqualSlices(t, got, want, "the zeros")
}

package prom_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/memstore"
	"github.com/holdfast-go/holdfast/observe"
	"github.com/holdfast-go/holdfast/observe/internal/measure"
	"github.com/holdfast-go/holdfast/observe/prom"
)

var background = context.Background()

func client(t *testing.T, s *memstore.Store, o *prom.Observer) *holdfast.Client {
	t.Helper()
	c, err := holdfast.New(s, holdfast.Config{Observer: o})
	assert.Must(t, err)
	t.Cleanup(func() { _ = c.Close(background) })
	return c
}

// want compares the metrics of these names with the text of a scrape.
func want(t *testing.T, o *prom.Observer, text string, names ...string) {
	t.Helper()
	assert.NoError(t, testutil.CollectAndCompare(o, strings.NewReader(text), names...))
}

// One process holds a lock for four seconds, another waits for it and holds it for three.
func TestMetricsOfAHandOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, o := memstore.New(), prom.New(prom.Config{})
		a, b := client(t, s, o).Mutex("x"), client(t, s, o).Mutex("x")
		first, err := a.Lock(background)
		assert.Must(t, err)
		granted := make(chan *holdfast.Lease)
		go func() {
			l, err := b.Lock(background)
			assert.NoError(t, err)
			granted <- l
		}()
		synctest.Wait()
		want(t, o, `
			# HELP holdfast_held Leases that this process has.
			# TYPE holdfast_held gauge
			holdfast_held{holdfast_mode="exclusive"} 1
			# HELP holdfast_waiting Acquisitions of this process that wait for another holder.
			# TYPE holdfast_waiting gauge
			holdfast_waiting{holdfast_mode="exclusive"} 1
		`, "holdfast_held", "holdfast_waiting")
		time.Sleep(4 * time.Second)
		_ = first.Release(background)
		second := <-granted
		time.Sleep(3 * time.Second)
		_ = second.Release(background)
		want(t, o, `
			# HELP holdfast_contended_total Acquisitions that found the lock held: they waited, or gave up at once.
			# TYPE holdfast_contended_total counter
			holdfast_contended_total{holdfast_mode="exclusive"} 1
			# HELP holdfast_held Leases that this process has.
			# TYPE holdfast_held gauge
			holdfast_held{holdfast_mode="exclusive"} 0
			# HELP holdfast_waiting Acquisitions of this process that wait for another holder.
			# TYPE holdfast_waiting gauge
			holdfast_waiting{holdfast_mode="exclusive"} 0
			# HELP holdfast_wakeups_total How often a waiter was woken, by cause.
			# TYPE holdfast_wakeups_total counter
			holdfast_wakeups_total{holdfast_cause="push",holdfast_mode="exclusive"} 1
		`, "holdfast_held", "holdfast_waiting", "holdfast_contended_total", "holdfast_wakeups_total")

		sum, count := histogram(t, o, "holdfast_hold_duration_seconds", map[string]string{"holdfast_end": "released"})
		assert.False(t, count != 2 || sum < 6.999 || sum > 7.001,
			"%d holds lasted %v s together, want 2 and 7 s", count, sum)
		sum, count = histogram(t, o, "holdfast_acquire_duration_seconds", map[string]string{
			"holdfast_waited": "true", "holdfast_outcome": "granted",
		})
		assert.False(t, count != 1 || sum < 3.999 || sum > 4.001,
			"%d acquisitions waited for %v s together, want 1 and 4 s", count, sum)
	})
}

// histogram returns the sum and the count of the histograms that have these labels.
func histogram(t *testing.T, o *prom.Observer, name string, labels map[string]string) (sum float64, count uint64) {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(o)
	families, err := registry.Gather()
	assert.Must(t, err)
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		for _, m := range family.GetMetric() {
			matches := 0
			for _, l := range m.GetLabel() {
				if labels[l.GetName()] == l.GetValue() {
					matches++
				}
			}
			if matches == len(labels) {
				sum += m.GetHistogram().GetSampleSum()
				count += m.GetHistogram().GetSampleCount()
			}
		}
	}
	return sum, count
}

// The counter of losses is there before the first loss, and counts it.
func TestALossIsCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, o := memstore.New(), prom.New(prom.Config{})
		l, err := client(t, s, o).Mutex("x").Lock(background)
		assert.Must(t, err)
		const before = `
			# HELP holdfast_lost_total Leases that were lost, by reason.
			# TYPE holdfast_lost_total counter
			holdfast_lost_total{holdfast_mode="exclusive",holdfast_reason="evicted"} 0
			holdfast_lost_total{holdfast_mode="exclusive",holdfast_reason="expired"} 0
			holdfast_lost_total{holdfast_mode="exclusive",holdfast_reason="limit"} 0
			holdfast_lost_total{holdfast_mode="exclusive",holdfast_reason="not_held"} 0
		`
		want(t, o, before, "holdfast_lost_total")
		s.FailRequest(func(string, []string) error { return errors.New("the connection is broken") })
		<-l.Context().Done()
		synctest.Wait()
		s.FailRequest(nil)
		want(t, o, strings.Replace(before, `"expired"} 0`, `"expired"} 1`, 1), "holdfast_lost_total")
	})
}

// Every metric of the table exists, none has the name of a lock, and a linter finds nothing
// to say about them.
func TestEveryMetricIsReported(t *testing.T) {
	const secret = "invoice-of-ann"
	o := prom.New(prom.Config{ConstLabels: map[string]string{"zone": "eu"}})
	for kind := observe.EventWait; kind <= observe.EventDeadlock; kind++ {
		o.Observe(observe.Event{Kind: kind, Name: secret, Mode: "shared", TTL: time.Second, Err: holdfast.ErrLost})
	}
	o.Observe(observe.Event{Kind: observe.EventRenew, Mode: "shared", TTL: time.Second})
	o.ObserveRequest(observe.Request{Script: "acquire"})
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(o)
	families, err := registry.Gather()
	assert.Must(t, err)
	found := map[string]string{}
	for _, family := range families {
		found[family.GetName()] = family.String()
		assert.True(t, strings.Contains(family.String(), `value:"eu"`) && !strings.Contains(family.String(), secret),
			"the labels are wrong: %s", family)
	}
	for _, m := range measure.Metrics {
		assert.False(t, found[m.PromName()] == "", "there is no metric %s", m.PromName())
	}
	assert.Equal(t, len(found), len(measure.Metrics), "metrics")
	problems, err := testutil.CollectAndLint(o)
	assert.Must(t, err)
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

func TestNamesAreGroupedOnDemand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := prom.New(prom.Config{Group: func(name string) string { return strings.SplitN(name, "/", 2)[0] }})
		c := client(t, memstore.New(), o)
		for _, name := range []string{"invoice/1", "invoice/2", "user/1"} {
			assert.Must(t, assert.Err(c.Mutex(name).Lock(background)))
		}
		want(t, o, `
			# HELP holdfast_held Leases that this process has.
			# TYPE holdfast_held gauge
			holdfast_held{holdfast_group="invoice",holdfast_mode="exclusive"} 2
			holdfast_held{holdfast_group="user",holdfast_mode="exclusive"} 1
		`, "holdfast_held")
	})
}

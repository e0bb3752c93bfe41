package otel_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/memstore"
	"github.com/holdfast-go/holdfast/observe/otel"
)

// world is a server, an observer and what it has reported, in one bubble of virtual time.
type world struct {
	*testing.T
	*memstore.Store
	observer *otel.Observer
	reader   *sdkmetric.ManualReader
	spans    *tracetest.SpanRecorder
	tracer   trace.Tracer // of the application
}

func bubble(t *testing.T, cfg otel.Config, f func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{
			T: t, Store: memstore.New(), reader: sdkmetric.NewManualReader(), spans: tracetest.NewSpanRecorder(),
		}
		provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(w.spans))
		w.tracer = provider.Tracer("application")
		cfg.MeterProvider = sdkmetric.NewMeterProvider(sdkmetric.WithReader(w.reader))
		cfg.TracerProvider = provider
		var err error
		w.observer, err = otel.New(cfg)
		assert.MustTrue(t, err == nil, "%v", err)
		f(w)
	})
}

// client makes a client that the observer observes.
func (w *world) client() *holdfast.Client { return w.make(holdfast.Config{Observer: w.observer}) }

// stranger makes a client of another process, of which the observer hears nothing.
func (w *world) stranger() *holdfast.Client { return w.make(holdfast.Config{}) }

func (w *world) make(cfg holdfast.Config) *holdfast.Client {
	w.Helper()
	c, err := holdfast.New(w.Store, cfg)
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { _ = c.Close(context.Background()) })
	return c
}

func (w *world) lock(ctx context.Context, m *holdfast.Mutex) *holdfast.Lease {
	w.Helper()
	l, err := m.Lock(ctx)
	if err != nil {
		w.Fatal(err)
	}
	return l
}

func (w *world) release(l *holdfast.Lease) {
	w.Helper()
	if err := l.Release(context.Background()); err != nil {
		w.Fatal(err)
	}
}

// metrics collects the metrics by their names.
func (w *world) metrics() map[string]metricdata.Metrics {
	w.Helper()
	var all metricdata.ResourceMetrics
	if err := w.reader.Collect(context.Background(), &all); err != nil {
		w.Fatal(err)
	}
	byName := map[string]metricdata.Metrics{}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			byName[m.Name] = m
		}
	}
	return byName
}

// point is one time series: a sum, or a histogram with its count.
type point struct {
	sum   float64
	count uint64
}

// points returns the time series of a metric, by their attributes: "key=value key=value",
// in the order of the keys, without the prefix of the keys.
func (w *world) points(name string) map[string]point {
	w.Helper()
	all := map[string]point{}
	switch data := w.metrics()[name].Data.(type) {
	case metricdata.Sum[int64]:
		for _, p := range data.DataPoints {
			all[attributes(p.Attributes)] = point{sum: float64(p.Value)}
		}
	case metricdata.Histogram[float64]:
		for _, p := range data.DataPoints {
			all[attributes(p.Attributes)] = point{p.Sum, p.Count}
		}
	default:
		w.Errorf("there is no metric %s", name)
	}
	return all
}

func attributes(set attribute.Set) string {
	var words []string
	for _, a := range set.ToSlice() {
		words = append(words, strings.TrimPrefix(string(a.Key), "holdfast.")+"="+a.Value.String())
	}
	return strings.Join(words, " ")
}

// wantSum asserts that the time series has this value, within a thousandth.
func (w *world) wantSum(name, attributes string, sum float64) {
	w.Helper()
	p, ok := w.points(name)[attributes]
	if difference := p.sum - sum; !ok || difference < -.001 || difference > .001 {
		w.Errorf("%s of %q is %v (found: %v), want %v; there are %v", name, attributes, p.sum, ok, sum, w.points(name))
	}
}

// wantCount asserts that the time series of a histogram has this many values.
func (w *world) wantCount(name, attributes string, count uint64) {
	w.Helper()
	if p := w.points(name)[attributes]; p.count != count {
		w.Errorf("%s of %q has %d values, want %d; there are %v", name, attributes, p.count, count, w.points(name))
	}
}

// ended returns the spans of a name that have ended, in the order of their ends.
func (w *world) ended(name string) (found []sdktrace.ReadOnlySpan) {
	for _, s := range w.spans.Ended() {
		if s.Name() == name {
			found = append(found, s)
		}
	}
	return found
}

// of returns the only span of a name under a parent.
func (w *world) of(name string, parent trace.Span) sdktrace.ReadOnlySpan {
	w.Helper()
	found := slices.DeleteFunc(w.ended(name), func(s sdktrace.ReadOnlySpan) bool {
		return s.Parent().SpanID() != parent.SpanContext().SpanID()
	})
	if len(found) != 1 {
		w.Fatalf("the parent has %d spans %q, want 1", len(found), name)
	}
	return found[0]
}

// value returns an attribute of a span.
func value(s sdktrace.ReadOnlySpan, key string) string {
	for _, a := range s.Attributes() {
		if string(a.Key) == key {
			return a.Value.String()
		}
	}
	return ""
}

func took(s sdktrace.ReadOnlySpan) time.Duration { return s.EndTime().Sub(s.StartTime()) }

var errBroken = errors.New("the connection is broken")

// Package otel is an observer that reports the locks of a client to OpenTelemetry: metrics
// and spans.
//
// Set it in [holdfast.Config.Observer]. docs/observability.md lists the metrics and the
// spans. The names of locks are in spans. They are not in metrics, unless [Config.Group]
// puts them there.
package otel

import (
	"context"
	"sync"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/observe"
	"github.com/holdfast-go/holdfast/observe/internal/measure"
)

// scope names this package to OpenTelemetry.
const scope = "github.com/holdfast-go/holdfast/observe/otel"

// Config has the settings of an observer. The zero value works.
type Config struct {
	// MeterProvider receives the metrics. Default: the global one.
	MeterProvider metric.MeterProvider

	// TracerProvider receives the spans. Default: the global one. To have no spans, set the
	// provider of go.opentelemetry.io/otel/trace/noop: then events cost no allocation.
	TracerProvider trace.TracerProvider

	// Group returns the value of the attribute holdfast.group in metrics, for the name of a
	// lock. It must return few different values: each value makes new time series, in every
	// process. It is called for every event, by several goroutines at a time. Default: the
	// metrics do not have that attribute.
	Group func(name string) string
}

// Observer reports events to OpenTelemetry. One observer may serve several clients. It has
// no goroutine, and needs no Close.
type Observer struct {
	group       func(name string) string
	instruments [len(measure.Metrics)]instrument
	options     sync.Map // from an optionsKey to its *options
	spans       spans    // without a tracer: none are wanted
}

var _ observe.RequestObserver = (*Observer)(nil)

// New creates an observer. The error is that of the meter provider.
func New(cfg Config) (*Observer, error) {
	if cfg.MeterProvider == nil {
		cfg.MeterProvider = otel.GetMeterProvider()
	}
	if cfg.TracerProvider == nil {
		cfg.TracerProvider = otel.GetTracerProvider()
	}
	version := metric.WithInstrumentationVersion(holdfast.Version)
	meter := cfg.MeterProvider.Meter(scope, version)
	o := &Observer{group: cfg.Group}
	for id := range measure.Metrics {
		var err error
		if o.instruments[id], err = newInstrument(meter, &measure.Metrics[id]); err != nil {
			return nil, err
		}
	}
	measure.Start(recorder{o})
	if _, none := cfg.TracerProvider.(noop.TracerProvider); none {
		return o, nil
	}
	o.spans.tracer = cfg.TracerProvider.Tracer(scope, trace.WithInstrumentationVersion(holdfast.Version))
	o.spans.open = map[leaseKey]trace.Span{}
	o.spans.last = map[string]lastHold{}
	return o, nil
}

// Observe implements [observe.Observer].
func (o *Observer) Observe(e observe.Event) {
	measure.Event(e, o.group, recorder{o})
	if o.spans.tracer != nil {
		o.spans.observe(e)
	}
}

// ObserveRequest implements [observe.RequestObserver].
func (o *Observer) ObserveRequest(r observe.Request) { measure.Request(r, recorder{o}) }

// instrument is one metric. One of the fields is set.
type instrument struct {
	counter   metric.Int64Counter
	upDown    metric.Int64UpDownCounter
	histogram metric.Float64Histogram
}

func newInstrument(meter metric.Meter, m *measure.Metric) (in instrument, err error) {
	unit, help := metric.WithUnit(m.Unit), metric.WithDescription(m.Help)
	switch m.Kind {
	case measure.Counter:
		in.counter, err = meter.Int64Counter(m.Name, unit, help)
	case measure.UpDown:
		in.upDown, err = meter.Int64UpDownCounter(m.Name, unit, help)
	case measure.Histogram:
		in.histogram, err = meter.Float64Histogram(m.Name, unit, help,
			metric.WithExplicitBucketBoundaries(m.Buckets...))
	}
	return in, err
}

// recorder implements [measure.Recorder].
type recorder struct{ *Observer }

// Record implements [measure.Recorder].
func (r recorder) Record(ctx context.Context, id measure.ID, value float64, labels measure.Labels) {
	in := &r.instruments[id]
	attributes := r.attributes(ctx, id, labels)
	switch {
	case in.counter != nil:
		in.counter.Add(ctx, int64(value), attributes.add...)
	case in.upDown != nil:
		in.upDown.Add(ctx, int64(value), attributes.add...)
	default:
		in.histogram.Record(ctx, value, attributes.record...)
	}
}

// optionsKey identifies a time series.
type optionsKey struct {
	id     measure.ID
	labels measure.Labels
}

// options are the attributes of a time series, for both kinds of calls.
type options struct {
	add    []metric.AddOption
	record []metric.RecordOption
}

// attributes returns the attributes of a sample. They are made once for each time series,
// because a sample comes with every acquisition, and there are few time series.
func (r recorder) attributes(ctx context.Context, id measure.ID, labels measure.Labels) *options {
	m := &measure.Metrics[id]
	key := optionsKey{id, labels.Only(m)}
	if known, ok := r.options.Load(key); ok {
		return known.(*options)
	}
	var list []attribute.KeyValue
	for _, k := range m.Attributes {
		switch {
		case k == measure.KeyWaited:
			list = append(list, attribute.Bool(string(k), labels.Waited))
		case k != measure.KeyGroup || r.group != nil:
			list = append(list, attribute.String(string(k), labels.Value(k)))
		}
	}
	set := metric.WithAttributeSet(attribute.NewSet(list...))
	known, old := r.options.LoadOrStore(key, &options{[]metric.AddOption{set}, []metric.RecordOption{set}})
	if !old {
		measure.First(ctx, id, key.labels, r)
	}
	return known.(*options)
}

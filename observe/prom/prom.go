// Package prom is an observer that reports the locks of a client to Prometheus.
//
// Set it in holdfast.Config.Observer, and register it. docs/observability.md lists the
// metrics. They have the names that Prometheus gives to those of package otel, so one
// dashboard and one set of alerts fit both.
package prom

import (
	"context"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/holdfast-go/holdfast/observe"
	"github.com/holdfast-go/holdfast/observe/internal/measure"
)

// Config has the settings of an observer. The zero value works.
type Config struct {
	// Group returns the value of the label holdfast_group, for the name of a lock. It must
	// return few different values: each value makes new time series, in every process. It
	// is called for every event, by several goroutines at a time. Default: the metrics do
	// not have that label.
	Group func(name string) string

	// ConstLabels are added to every metric. Two observers in one registry need them to
	// differ. Default: none.
	ConstLabels map[string]string
}

// Observer counts events for Prometheus. One observer may serve several clients. It has no
// goroutine, and needs no Close.
type Observer struct {
	group   func(name string) string
	vectors [len(measure.Metrics)]vector
	series  sync.Map // from a seriesKey to a func(value float64)
}

var (
	_ observe.RequestObserver = (*Observer)(nil)
	_ prometheus.Collector    = (*Observer)(nil)
)

// New creates an observer. Register it, for example with [prometheus.MustRegister].
func New(cfg Config) *Observer {
	o := &Observer{group: cfg.Group}
	for id := range measure.Metrics {
		o.vectors[id] = newVector(&measure.Metrics[id], cfg)
	}
	measure.Start(recorder{o})
	return o
}

// Observe implements [observe.Observer].
func (o *Observer) Observe(e observe.Event) { measure.Event(e, o.group, recorder{o}) }

// ObserveRequest implements [observe.RequestObserver].
func (o *Observer) ObserveRequest(r observe.Request) { measure.Request(r, recorder{o}) }

// Describe implements [prometheus.Collector].
func (o *Observer) Describe(to chan<- *prometheus.Desc) {
	for i := range o.vectors {
		o.vectors[i].Describe(to)
	}
}

// Collect implements [prometheus.Collector].
func (o *Observer) Collect(to chan<- prometheus.Metric) {
	for i := range o.vectors {
		o.vectors[i].Collect(to)
	}
}

// vector is one metric with all its time series.
type vector struct {
	prometheus.Collector
	keys []measure.Key
	with func(values ...string) func(value float64) // a time series
}

// nativeFactor is the growth of the buckets of a native histogram. A server that does not
// collect those takes the buckets of the table.
const nativeFactor = 1.1

func newVector(m *measure.Metric, cfg Config) vector {
	v := vector{}
	var labels []string
	for _, k := range m.Attributes {
		if k != measure.KeyGroup || cfg.Group != nil {
			v.keys = append(v.keys, k)
			labels = append(labels, k.Label())
		}
	}
	name, always := m.PromName(), prometheus.Labels(cfg.ConstLabels)
	switch m.Kind {
	case measure.Counter:
		vec := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: m.Help, ConstLabels: always}, labels)
		v.with = func(values ...string) func(float64) { return vec.WithLabelValues(values...).Add }
		v.Collector = vec
	case measure.UpDown:
		vec := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: m.Help, ConstLabels: always}, labels)
		v.with = func(values ...string) func(float64) { return vec.WithLabelValues(values...).Add }
		v.Collector = vec
	case measure.Histogram:
		vec := prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: name, Help: m.Help, ConstLabels: always, Buckets: m.Buckets,
			NativeHistogramBucketFactor: nativeFactor,
		}, labels)
		v.with = func(values ...string) func(float64) { return vec.WithLabelValues(values...).Observe }
		v.Collector = vec
	}
	return v
}

// recorder implements [measure.Recorder].
type recorder struct{ *Observer }

// seriesKey identifies a time series.
type seriesKey struct {
	id     measure.ID
	labels measure.Labels
}

// Record implements [measure.Recorder].
func (r recorder) Record(ctx context.Context, id measure.ID, value float64, labels measure.Labels) {
	key := seriesKey{id, labels.Only(&measure.Metrics[id])}
	known, ok := r.series.Load(key)
	if !ok {
		v := &r.vectors[id]
		values := make([]string, len(v.keys))
		for i, k := range v.keys {
			values[i] = labels.Value(k)
		}
		var old bool
		if known, old = r.series.LoadOrStore(key, v.with(values...)); !old {
			measure.First(ctx, id, key.labels, r)
		}
	}
	known.(func(value float64))(value)
}

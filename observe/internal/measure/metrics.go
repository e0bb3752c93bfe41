// Package measure says what the observers of this directory measure: the metrics with their
// names and units, and which of them an event changes. It knows no metrics library. Because
// all observers use it, a dashboard fits each of them.
package measure

import (
	"slices"
	"strings"
)

// Kind is how the values of a metric add up.
type Kind uint8

// The kinds of metrics.
const (
	Counter   Kind = iota // the sum of values that are never negative
	UpDown                // the sum of values that may be negative
	Histogram             // the distribution of values
)

// Key is the name of an attribute of a metric.
type Key string

// The attributes. Their number of values is small: no name of a lock is among them.
const (
	KeyMode    Key = "holdfast.mode"
	KeyOutcome Key = "holdfast.outcome"
	KeyWaited  Key = "holdfast.waited"
	KeyEnd     Key = "holdfast.end"
	KeyReason  Key = "holdfast.reason"
	KeyCause   Key = "holdfast.cause"
	KeyScript  Key = "holdfast.script"
	KeyGroup   Key = "holdfast.group" // only if the user gives a function that groups names
)

// Label is the name of the attribute in Prometheus. It is the name that Prometheus gives to
// the attribute when it receives metrics from OpenTelemetry.
func (k Key) Label() string { return strings.ReplaceAll(string(k), ".", "_") }

// Metric is one metric.
type Metric struct {
	Name       string // as in OpenTelemetry, without the unit
	Kind       Kind
	Unit       string // in UCUM
	Help       string
	Attributes []Key
	Buckets    []float64 // the upper bounds, of a histogram
}

// PromName is the name of the metric in Prometheus. It is the name that Prometheus gives to
// the metric when it receives it from OpenTelemetry.
func (m Metric) PromName() string {
	name := strings.ReplaceAll(m.Name, ".", "_")
	switch {
	case m.Unit == "s":
		name += "_seconds"
	case m.Unit == "1" && !strings.HasSuffix(name, "_ratio"):
		name += "_ratio"
	}
	if m.Kind == Counter {
		name += "_total"
	}
	return name
}

// ID is the index of a metric in Metrics.
type ID uint8

// The metrics.
const (
	AcquireDuration ID = iota
	HoldDuration
	Held
	Waiting
	Contended
	Wakeups
	Renewals
	RenewLag
	RenewRemaining
	RenewRemainingRatio
	Lost
	Leaked
	RequestDuration
	Away
	Deadlocks
	PushUnavailable
)

// Times from half a millisecond, which is less than a request takes, to ten minutes, which
// is more than most work under a lock takes.
var (
	requestTimes = []float64{
		.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5,
	}
	waitTimes = append(slices.Clip(requestTimes), 10, 30, 60, 300)
	holdTimes = append(slices.Clip(waitTimes[1:]), 600, 3600)
	lagTimes  = []float64{.001, .01, .1, .25, .5, 1, 2.5, 5, 10, 30}
	leftTimes = []float64{.01, .1, .5, 1, 2.5, 5, 10, 20, 30, 60, 300}
	ratios    = []float64{.05, .1, .2, .3, .4, .5, .6, .7, .8, .9}
)

// Metrics are all metrics, by their ID.
var Metrics = [...]Metric{
	AcquireDuration: {
		"holdfast.acquire.duration", Histogram, "s",
		"From the call to the lease, or to the error.",
		[]Key{KeyMode, KeyOutcome, KeyWaited, KeyGroup}, waitTimes,
	},
	HoldDuration: {
		"holdfast.hold.duration", Histogram, "s",
		"From the beginning of a lease to its end.",
		[]Key{KeyMode, KeyEnd, KeyGroup}, holdTimes,
	},
	Held: {
		"holdfast.held", UpDown, "{lease}",
		"Leases that this process has.",
		[]Key{KeyMode, KeyGroup}, nil,
	},
	Waiting: {
		"holdfast.waiting", UpDown, "{acquisition}",
		"Acquisitions of this process that wait for another holder.",
		[]Key{KeyMode, KeyGroup}, nil,
	},
	Contended: {
		"holdfast.contended", Counter, "{acquisition}",
		"Acquisitions that found the lock held: they waited, or gave up at once.",
		[]Key{KeyMode, KeyGroup}, nil,
	},
	Wakeups: {
		"holdfast.wakeups", Counter, "{wakeup}",
		"How often a waiter was woken, by cause.",
		[]Key{KeyCause, KeyMode, KeyGroup}, nil,
	},
	Renewals: {
		"holdfast.renewals", Counter, "{renewal}",
		"Renewals that have ended, by outcome.",
		[]Key{KeyOutcome, KeyMode, KeyGroup}, nil,
	},
	RenewLag: {
		"holdfast.renew.lag", Histogram, "s",
		"How long after its due time a renewal was sent.",
		[]Key{KeyMode, KeyGroup}, lagTimes,
	},
	RenewRemaining: {
		"holdfast.renew.remaining", Histogram, "s",
		"Time left on the lease when its renewal was confirmed.",
		[]Key{KeyMode, KeyGroup}, leftTimes,
	},
	RenewRemainingRatio: {
		"holdfast.renew.remaining_ratio", Histogram, "1",
		"Time left on the lease when its renewal was confirmed, as a fraction of the TTL.",
		[]Key{KeyMode, KeyGroup}, ratios,
	},
	Lost: {
		"holdfast.lost", Counter, "{lease}",
		"Leases that were lost, by reason.",
		[]Key{KeyReason, KeyMode, KeyGroup}, nil,
	},
	Leaked: {
		"holdfast.leaked", Counter, "{lease}",
		"Leases that the program dropped without a release.",
		[]Key{KeyMode, KeyGroup}, nil,
	},
	RequestDuration: {
		"holdfast.request.duration", Histogram, "s",
		"From sending a script to the answer or the failure.",
		[]Key{KeyScript, KeyOutcome}, requestTimes,
	},
	Away: {
		"holdfast.away", Counter, "{acquisition}",
		"How often an acquisition began to wait for a server that cannot serve it.",
		[]Key{KeyMode, KeyGroup}, nil,
	},
	Deadlocks: {
		"holdfast.deadlocks", Counter, "{acquisition}",
		"Acquisitions that found themselves in a deadlock: calls that wait for each other.",
		[]Key{KeyMode, KeyGroup}, nil,
	},
	PushUnavailable: {
		"holdfast.push_unavailable", Counter, "{client}",
		"Clients whose waiters poll, because no grant can be pushed to them.",
		nil, nil,
	},
}

// Package observe has what an observer of a client receives: the events of locks, and the requests. Set an
// [Observer] in holdfast.Config. The packages below it report to Prometheus and OpenTelemetry, and show locks on a
// web page.
package observe

import (
	"context"
	"time"
)

// Observer receives events of locks and leases. It must not call the client. If it panics, the call that reports the
// event goes on, and the panic is written to standard error with its stack.
//
// The events of one call are reported in that call, and several calls may report at the same
// time. If the observer is slow, it delays the call. Renewals, losses and leaks are reported in
// a separate goroutine. A slow observer delays no lease. If it blocks for long, some of these
// events are dropped. The events of one lease come in order.
//
// If it is also a [RequestObserver], it receives every request to the server too.
type Observer interface {
	Observe(Event)
}

// RequestObserver receives every request to the server. A client calls ObserveRequest if the Observer in its
// Config implements it too.
//
// ObserveRequest is called when a request has ended, in the goroutine that sent it. Requests
// of the background are reported too. A slow ObserveRequest delays what waits for the
// request, renewals included.
type RequestObserver interface {
	ObserveRequest(Request)
}

// Request is one request to the server: one call of a script.
type Request struct {
	Context context.Context // of the request: it has the values of the caller's context, if a call sent it
	Script  string          // the name of the script, see docs/protocol.md
	Took    time.Duration   // until the answer or the failure
	Err     error           // nil if the server answered; a refusal is a *store.ServerError
}

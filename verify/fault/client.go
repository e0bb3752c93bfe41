package fault

import (
	"context"
	"errors"
	"math/rand/v2"

	"github.com/holdfast-go/holdfast/verify/history"
)

var clientFaults = []Fault{
	{Name: "stop", About: "a client is stopped for 0.5 to 3 leases", Often: true, inject: stop},
	{Name: "stop-writer", About: "a client is stopped for 1.2 to 3 leases just before it writes", Aims: true,
		inject: stopWriter},
	{Name: "squeeze", About: "a client is killed, and replaced by one with one processor and little memory",
		inject: squeeze},
	{Name: "kill", About: "a client is killed, and replaced", inject: kill},
}

func stop(ctx context.Context, w World, rng *rand.Rand, span *history.FaultSpan) error {
	d := between(rng, leases(w, 0.5), leases(w, 3))
	c, done, err := claim(w, rng, span)
	if err != nil {
		return err
	}
	defer done()
	if err := c.Stop(); err != nil {
		return err
	}
	history.Sleep(ctx, d)
	return c.Continue()
}

// stopWriter stops a client between its check and its write, for longer than its lease
// lasts.
func stopWriter(ctx context.Context, w World, rng *rand.Rand, span *history.FaultSpan) error {
	d := between(rng, leases(w, 1.2), leases(w, 3))
	c, done, err := claim(w, rng, span)
	if err != nil {
		return err
	}
	defer done()
	limited, cancel := context.WithTimeout(ctx, leases(w, 5))
	defer cancel()
	if err := c.Stand(limited); err != nil {
		return err
	}
	w.Started()
	span.From = history.Now()
	written := w.Writes()
	if err := c.Stop(); err != nil {
		return err
	}
	history.Sleep(ctx, d)
	// It does harm only if another client writes meanwhile.
	till := history.Now() + int64(leases(w, 3))
	for w.Writes() == written && history.Now() < till && ctx.Err() == nil {
		history.Sleep(ctx, leases(w, 0.02))
	}
	c.Go()
	span.Aimed = w.Writes() > written
	if err := c.Continue(); err != nil || span.Aimed {
		return err
	}
	// Beside another fault no client may have been able to write. It was stopped anyway.
	span.Text = "nobody else wrote meanwhile"
	return nil
}

// squeeze starves a client of memory for a while. All promises hold for it, too. Only the
// signal of a loss comes as late as the garbage collector lets it.
func squeeze(ctx context.Context, w World, rng *rand.Rand, span *history.FaultSpan) error {
	d := between(rng, leases(w, 1), leases(w, 3))
	c, done, err := claim(w, rng, span)
	if err != nil {
		return err
	}
	defer done()
	if err := c.Squeeze(); err != nil {
		return err
	}
	history.Sleep(ctx, d)
	for _, next := range w.Clients() {
		if next.Number() == c.Number() {
			return next.Kill()
		}
	}
	return nil
}

// kill ends a client, and often its successor as well.
func kill(ctx context.Context, w World, rng *rand.Rand, span *history.FaultSpan) error {
	n, d := 1+rng.IntN(2), between(rng, leases(w, 0.1), leases(w, 0.4))
	c, done, err := claim(w, rng, span)
	if err != nil {
		return err
	}
	defer done()
	for i := range n {
		if i > 0 {
			history.Sleep(ctx, d)
		}
		for _, next := range w.Clients() {
			if next.Number() == c.Number() {
				err = errors.Join(err, next.Kill())
			}
		}
	}
	return err
}

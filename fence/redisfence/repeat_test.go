package redisfence

import (
	"context"
	"errors"
	"testing"

	"github.com/holdfast-go/holdfast/internal/neighbour/wiretest"
	"github.com/holdfast-go/holdfast/script"
	"github.com/holdfast-go/holdfast/store"
)

// Every script, twice and late. What a copy of a write or a reset does is why no store sends one, and why Do and Reset
// say what must not come between.
func TestACopyOfARequestDoesNoHarm(t *testing.T) {
	type call = func(ctx context.Context, s store.Store) error
	write := func(token uint64, name string) call {
		return func(ctx context.Context, s store.Store) error {
			return Guard{Store: s}.Do(ctx, "n", token, Write(name, "n"))
		}
	}
	others := func(n int) call {
		return func(ctx context.Context, s store.Store) error {
			for range n {
				if err := write(5, "DECR")(ctx, s); err != nil {
					return err
				}
			}
			return nil
		}
	}
	newer := func(ctx context.Context, s store.Store) error {
		return errors.Join(others(30)(ctx, s), write(6, "INCR")(ctx, s))
	}
	reset := func(ctx context.Context, s store.Store) error { return Guard{Store: s}.Reset(ctx, "n") }
	read := func(ctx context.Context, s store.Store) error {
		_, err := Guard{Store: s}.Seen(ctx, "n")
		return err
	}
	wiretest.CopiesOfCalls(t, []wiretest.Copy{
		{Name: "write, at once", Call: write(5, "INCR")},
		{Name: "write, at once, after another", Before: write(5, "INCR"), Call: write(5, "INCR")},
		{Name: "write, after a newer token", Call: write(5, "INCR"), Later: write(6, "INCR")},
		{Name: "write, after another under its token", Call: write(5, "INCR"), Later: write(5, "DECR")},
		{Name: "write, after 19 others", Call: write(5, "INCR"), Later: others(19)},
		{Name: "write, after 20 others", Call: write(5, "INCR"), Later: others(20), Harm: true},
		{Name: "write, after 30 others and a newer token", Call: write(5, "INCR"), Later: newer},
		{Name: "write, after a reset", Call: write(5, "INCR"), Later: reset, Harm: true},
		{Name: "read, at once", Before: write(5, "INCR"), Call: read},
		{Name: "read, after a newer token", Call: read, Later: write(6, "INCR")},
		{Name: "reset, at once", Before: write(5, "INCR"), Call: reset},
		{Name: "reset, after a newer token", Call: reset, Later: write(6, "INCR"), Harm: true},
	}, map[string]*script.Script{
		"writeScript": writeScript, "readScript": readScript, "resetScript": resetScript,
	}, wiretest.Scripts(t, ".", "define"))
}

package neighbours

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// Both lets the two fleets of a neighbour work at the same time, each with servers of its own, under
// the same faults. So a machine that is busy is as busy for both.
func Both(ctx context.Context, n Neighbour, opts Options) (Report, error) {
	report := Report{Neighbour: n, Options: opts}
	opts.Servers, opts.Long = n.Servers, n.Long
	tell := opts.Tell
	run := func(name string, into *Result, which func(int) Library) error {
		opts := opts
		opts.Tell = func(format string, args ...any) { tell(name+": "+format, args...) }
		var err error
		if *into, err = Run(ctx, opts, which); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		return nil
	}
	var mixed, alone error
	var together sync.WaitGroup
	together.Go(func() {
		mixed = run("mixed", &report.Mixed, func(number int) Library {
			if number%2 == 0 {
				return n.Ours
			}
			return n.Original
		})
	})
	together.Go(func() {
		alone = run("alone", &report.Alone, func(int) Library { return n.Original })
	})
	together.Wait()
	return report, errors.Join(mixed, alone)
}

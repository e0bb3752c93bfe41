package demo

import (
	"context"
	"fmt"
	"slices"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/audit"
)

// prefix is what the keys of the demo begin with.
const prefix = "holdfast-demo"

// subscribe puts the notes of the server among the reports, until stop is called. The
// notes are published in the order of the changes that they tell of.
func (r *run) subscribe(ctx context.Context) (stop func(), err error) {
	sub := r.rdb.Subscribe(ctx, audit.Channel(prefix))
	if _, err := sub.Receive(ctx); err != nil {
		_ = sub.Close()
		return nil, fmt.Errorf("subscribing to the server's account: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			e := event{Kind: noted}
			m, err := sub.ReceiveMessage(ctx)
			if err != nil {
				e.Err = err.Error()
			} else {
				e.Text = m.Payload
			}
			e.At = now()
			select {
			case r.fleet.reports <- report{nil, e}:
			case <-ctx.Done():
			}
		}
	}()
	return func() {
		cancel()
		_ = sub.Close()
		<-ended
	}, nil
}

// heardNote takes in a note of the server. The empty one is the demo's own: it comes
// after all others.
func (r *run) heardNote(e event) error {
	if e.Err != "" {
		return fmt.Errorf("the server's account: %s", e.Err)
	}
	if r.complete = e.Text == ""; r.complete {
		return nil
	}
	n, err := audit.Parse(e.Text)
	if err != nil {
		return err
	}
	r.holder = r.workerOf(n.After.Holder)
	r.account.step(n)
	return nil
}

// endAccount publishes the note behind which none follows.
func endAccount(ctx context.Context, rdb *redis.Client) error {
	return rdb.Publish(ctx, audit.Channel(prefix), "").Err()
}

// overlaps counts the grants that came while an earlier hold still lasted.
func overlaps(grants []grant) int {
	n := 0
	var till int64
	for _, g := range grants {
		if g.From < till {
			n++
		}
		till = max(till, g.Till)
	}
	return n
}

// handovers returns the latencies, in ns, of the hand-overs from one process to the
// next: from the call of Release in the one to the return of Lock in the other. The
// order is the server's. A hand-over counts only if the server granted the lock in the
// release, and pushed that; and if the next process waited before, or the latency would
// measure how long nobody wanted the lock.
func handovers(grants []grant, holds []*hold) []int64 {
	byToken := make(map[uint64]*hold, len(holds))
	for _, h := range holds {
		byToken[h.got.Token/tokensPerGrant] = h
	}
	var latencies []int64
	for i := 1; i < len(grants); i++ {
		from, to := byToken[grants[i-1].Token], byToken[grants[i].Token]
		if from == nil || to == nil || grants[i].By != "release" || from.over == nil || !from.over.Released {
			continue
		}
		released := from.over.Asked
		if from.got.Proc != to.got.Proc && to.got.Asked < released && released < to.got.At {
			latencies = append(latencies, to.got.At-released)
		}
	}
	return latencies
}

// tokensPerGrant is how many tokens a process can make of one of the server's
// (docs/protocol.md, Tokens).
const tokensPerGrant = 1024

// percentile returns the smallest value that at least p percent of the values
// do not exceed (nearest rank), and 0 without values.
func percentile(values []int64, p int) int64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Clone(values)
	slices.Sort(sorted)
	rank := (len(sorted)*p + 99) / 100
	return sorted[max(rank, 1)-1]
}

package request

import (
	"context"
	"sync"

	"github.com/holdfast-go/holdfast/internal/batch"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/script"
)

// checkOne is a token that may be checked with others.
type checkOne struct{ key, token string }

// checkOutcome is the result of checkOne. The zero value means: ask alone.
type checkOutcome struct {
	done  bool
	found wire.CheckLine
	err   error
}

// Check asks whether a live hold has the token, the server's part. Calls that come while others are under way
// are sent together. Nothing is answered from a request that was sent before the call.
func (s *Sender) Check(ctx context.Context, key string, token uint64) (wire.CheckLine, error) {
	one := checkOne{key, wire.Number(token)}
	checks := s.batchers.checks
	item := checks.Offer(one)
	if item == nil {
		defer checks.DoneAlone()
		return s.checkAlone(ctx, one, token)
	}
	o, answered := checks.Await(item, ctx.Done())
	switch {
	case !answered:
		item.Withdraw()
		return wire.CheckLine{}, Ended(ctx)
	case !o.done || o.err == nil && o.found.Unread:
		return s.checkAlone(ctx, one, token)
	}
	return o.found, o.err
}

// checkAlone asks for one token. If a step does not read that far, or cannot read the record, the pages of inspect
// tell the rest, or why not.
func (s *Sender) checkAlone(ctx context.Context, one checkOne, token uint64) (wire.CheckLine, error) {
	keys := []string{one.key}
	answer, err := s.Run(ctx, script.Check, keys, []string{one.token})
	if err != nil {
		return wire.CheckLine{}, err
	}
	found, err := wire.ParseChecks(answer, 1)
	if err != nil || !found[0].Unread {
		return found[0], err
	}
	live := func(page *wire.Record) bool { return page.Check(token).Live }
	r, err := s.RecordUntil(ctx, keys, live, wire.HoldersOnly)
	c := r.Check(token)
	if err == nil && !c.Live && len(r.Silent) > 0 {
		err = &wire.UnprovenError{Silent: r.Silent}
	}
	return c, err
}

// sendChecks sends a batch: one request for the locks of each group.
func (s *Sender) sendChecks(all []*batch.Item[checkOne, checkOutcome]) {
	groups := make(map[string][]*batch.Item[checkOne, checkOutcome])
	for _, item := range all {
		group := s.Store.Group(item.Request.key)
		groups[group] = append(groups[group], item)
	}
	var wg sync.WaitGroup
	for _, items := range groups {
		wg.Go(func() { s.sendGroup(items) })
	}
	wg.Wait()
}

func (s *Sender) sendGroup(items []*batch.Item[checkOne, checkOutcome]) {
	keys, tokens := make([]string, len(items)), make([]string, len(items))
	for i, item := range items {
		keys[i], tokens[i] = item.Request.key, item.Request.token
	}
	var found []wire.CheckLine
	answer, err := s.Run(s.Life.Context(), script.Check, keys, tokens)
	if err == nil {
		found, err = wire.ParseChecks(answer, len(items))
	}
	for i, item := range items {
		o := checkOutcome{done: true, err: err}
		switch {
		case err == nil:
			o.found = found[i]
		case len(items) > 1 && batch.ConcernsAKey(err): // of one of them: each is asked for alone
			o = checkOutcome{}
		}
		item.Answer <- o
	}
}

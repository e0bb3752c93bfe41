package quorum

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/majority"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/script"
)

// renewal is one lease of a renew.
type renewal struct {
	key, attempt, ttlMS, owner string
	ttl                        time.Duration
	c                          *claim
	slots                      []*slot       // as they were at the start; nil for an unknown claim
	since                      time.Duration // who has held since then vouches for the time until now
	votes                      []majority.Vote
	waits                      []int
}

// renew extends leases on all nodes. A lease goes on if a majority of the nodes
// has held it without a break since the start of the renewal before: then there
// was no instant at which others could have had a majority. Nodes that do not
// hold it (any more) are asked to, for the time to come.
func (s *Store) renew(ctx context.Context, keys, args []string) (string, error) {
	leases, limit, err := s.leases(ctx, keys, args)
	if err != nil {
		return "", err
	}
	for _, p := range prefixes(keys) {
		s.view(p).refresh() // it keeps the marks alive, and the comparison of clocks young
	}
	start := s.now()
	answers := make([]chan []wire.Renewal, len(s.nodes))
	for i := range answers {
		answers[i] = make(chan []wire.Renewal, 1)
	}
	done := s.spread(func(i int, n *node) error {
		answer, err := n.call(limit, script.Renew, keys, argsFor(i, args[0], leases))
		var list []wire.Renewal
		if err == nil {
			list, err = wire.ParseRenewals(answer, len(leases))
		}
		answers[i] <- list
		return err
	})
	failed, heard := make(map[int]error), make([]bool, len(s.nodes))
	grace := time.NewTimer(forever) // for those of which no answer is expected: they may be back
	defer grace.Stop()
	for open, late, graced := len(s.nodes), false, false; open > 0 && !late; {
		if !graced && kept(leases) && s.onlySuspects(heard) {
			graced = grace.Reset(majority.Grace(s.now()-start, limit))
		}
		select {
		case <-grace.C:
			late = true
		case r := <-done:
			open--
			heard[r.i] = true
			if r.err != nil {
				failed[r.i] = r.err
				break
			}
			list := <-answers[r.i]
			for l := range leases {
				leases[l].hear(r.i, list[l])
			}
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}
	return s.renewed(leases, failed, start, limit)
}

// prefixes are those of the keys.
func prefixes(keys []string) []string {
	list := make([]string, len(keys))
	for i, key := range keys {
		list[i] = prefix(key)
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// leases reads the arguments.
func (s *Store) leases(ctx context.Context, keys, args []string) ([]renewal, time.Duration, error) {
	if len(args) != 1+3*len(keys) {
		return nil, 0, refuse(ErrUnsupported, "ERR", "renew takes %d arguments for %d keys, not %d",
			1+3*len(keys), len(keys), len(args))
	}
	leases, shortest := make([]renewal, len(keys)), time.Duration(0)
	for i := range leases {
		l := &leases[i]
		l.key, l.attempt, l.ttlMS, l.owner = keys[i], args[3*i+1], args[3*i+2], args[3*i+3]
		ms, err := strconv.ParseInt(l.ttlMS, 10, 64)
		if err != nil || ms < 1 {
			return nil, 0, refuse(ErrUnsupported, "ERR", "renew: the TTL %q is no number of milliseconds", l.ttlMS)
		}
		l.ttl = time.Duration(ms) * time.Millisecond
		if err := s.fits(l.ttl); err != nil {
			return nil, 0, err
		}
		if shortest == 0 || l.ttl < shortest {
			shortest = l.ttl
		}
		l.votes, l.waits = make([]majority.Vote, len(s.nodes)), make([]int, len(s.nodes))
		if l.c = s.known(l.key, l.attempt); l.c == nil {
			continue
		}
		l.c.touch()
		l.c.mu.Lock()
		if l.c.phase == held {
			l.slots, l.since = append([]*slot(nil), l.c.round.slots...), l.c.renewed
		}
		l.c.mu.Unlock()
	}
	return leases, s.limit(ctx, shortest), nil
}

// argsFor are the arguments for one node, which knows each attempt by an
// identity of its own.
func argsFor(i int, retention string, leases []renewal) []string {
	args := []string{retention}
	for l := range leases {
		id := leases[l].attempt
		if leases[l].slots != nil {
			id = leases[l].slots[i].id
		}
		args = append(args, id, leases[l].ttlMS, leases[l].owner)
	}
	return args
}

// hear files what a node said of the lease.
func (l *renewal) hear(i int, r wire.Renewal) {
	l.waits[i] = r.Waiting
	switch {
	case r.Evicted:
		l.votes[i] = majority.Evicted
	case !r.Held:
		l.votes[i] = majority.NotHeld
	case l.slots == nil:
		l.votes[i] = majority.Held
	default:
		l.c.mu.Lock()
		defer l.c.mu.Unlock()
		l.votes[i] = majority.Fresh
		if sl := l.slots[i]; sl.holds && sl.known <= l.since {
			l.votes[i] = majority.Held
		}
	}
}

// kept reports whether all leases are known to go on.
func kept(leases []renewal) bool {
	for l := range leases {
		if majority.Tally(leases[l].votes) != majority.Kept {
			return false
		}
	}
	return true
}

// renewed answers, and brings the leases back to the nodes that lack them.
func (s *Store) renewed(
	leases []renewal, failed map[int]error, start time.Duration, limit time.Duration,
) (string, error) {
	each, unknown := make([]string, len(leases)), 0
	for l := range leases {
		one := &leases[l]
		switch majority.Tally(one.votes) {
		case majority.Kept:
			each[l] = strconv.Itoa(one.keep(start, limit))
		case majority.Unknown:
			each[l] = "?"
			unknown++
		case majority.Ended:
			each[l] = "evicted"
			s.lost(one)
		default:
			each[l] = "-"
			s.lost(one)
		}
	}
	if unknown == len(leases) {
		leases[0].explain(failed)
		return "", s.short(failed)
	}
	return "renewed " + strings.Join(each, " "), nil
}

// explain adds why nodes that have answered do not count.
func (l *renewal) explain(failed map[int]error) {
	for i, v := range l.votes {
		switch v {
		case majority.Fresh:
			failed[i] = errFresh
		case majority.NotHeld, majority.Evicted:
			failed[i] = errForgot
		default: // it vouches, or is among the failed
		}
	}
}

// keep notes that the lease goes on, and answers how many wait for it.
func (l *renewal) keep(start, limit time.Duration) (waits int) {
	c := l.c
	if l.slots == nil {
		for _, n := range l.waits {
			waits = max(waits, n)
		}
		return waits
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.renewed = max(c.renewed, start)
	if l.votes[c.round.lead] != majority.Silent {
		c.waits = l.waits[c.round.lead]
	}
	waits = c.waits
	if c.phase != held || !c.round.live() {
		return waits
	}
	for i, sl := range c.round.slots {
		if sl != l.slots[i] {
			continue // changed meanwhile
		}
		switch l.votes[i] {
		case majority.NotHeld:
			// What was granted since the start the node could not know of, nor
			// what is under way there.
			if (!sl.holds || sl.known < start) && len(sl.gate) == 0 {
				c.bringBack(i, limit)
			}
		case majority.Fresh:
			if !sl.holds { // its grant had not been heard of
				sl.hold(sl.token, waits, start)
				sl.late()
			}
		case majority.Held:
			sl.since, sl.short = max(sl.since, start), false
		default: // nothing is known
		}
	}
	return waits
}

// bringBack asks a node to hold what others hold already: it had been away, or has
// not answered, or somebody was in the way there, or it has forgotten. What an
// earlier request may have led to there, or may yet lead to, is cancelled. c.mu is
// held.
func (c *claim) bringBack(i int, limit time.Duration) {
	r := c.round
	before, sl := r.slots[i], r.fresh(i)
	before.over, before.holds = true, false
	r.slots[i] = sl
	c.s.life.Go(func() {
		_, _ = before.giveBack(limit) // what fails is owed
		if sl.acquire(limit, "0") != nil {
			return
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		if sl.holds {
			sl.late()
		}
	})
}

// lost ends the claim. What some nodes still hold is left alone: the holder's
// code may still run, and it ends by itself.
func (s *Store) lost(l *renewal) {
	c := l.c
	if c == nil {
		return
	}
	s.forget(c)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.phase = over
	if c.round != nil {
		c.round.end()
	}
}

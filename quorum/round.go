package quorum

import (
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast/internal/majority"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/script"
)

// slot is what a round has on one node, under one identity.
type slot struct {
	r    *round
	i    int
	node *node
	keys []string
	id   string
	gate chan struct{} // has room for one request at a time

	// The claim's mu guards the fields below.
	over   bool // given back: nothing more is taken under this identity
	reply  majority.Reply
	err    error // why it failed
	last   wire.Answer
	holds  bool          // the node has granted
	stands bool          // it has a place in the node's line
	short  bool          // it was granted by a push, for a short time, until a request confirms it
	stray  time.Duration // until then an acquire that got no answer may yet take the lock, even after it was given back
	strays int           // how many such acquires there are
	token  uint64
	waits  int           // how many stood in the node's line when it granted
	asked  time.Duration // before the last request was sent that may have led to a place
	since  time.Duration // the hold counts from here: the node has not started to count earlier
	known  time.Duration // the node has held without a break since then, as far as it told
}

// fresh makes an empty slot. c.mu is held.
func (r *round) fresh(i int) *slot {
	c := r.c
	return &slot{
		r: r, i: i, node: c.s.nodes[i], keys: []string{c.key},
		id:   c.attempt + "." + strconv.FormatUint(c.s.ids.Add(1), 10),
		gate: make(chan struct{}, 1),
	}
}

// send sends an action to the node when no earlier request of the slot is under
// way there: so a cancel never overtakes what it is to undo. What takes
// something is not sent any more once the slot is over.
func (sl *slot) send(limit time.Duration, action *script.Script, args []string) (wire.Answer, error) {
	c := sl.r.c
	takes := action == script.Acquire || action == script.Poll
	sl.gate <- struct{}{} // every request is bounded, so this wait is too
	defer func() { <-sl.gate }()
	c.mu.Lock()
	if takes && (sl.over || sl.r.ended) {
		c.mu.Unlock()
		return wire.Answer{}, errOver
	}
	sent := c.s.now()
	if takes && !sl.stands && !sl.holds {
		sl.asked = sent
	}
	c.mu.Unlock()
	answer, err := sl.node.call(limit, action, sl.keys, args)
	var a wire.Answer
	if err == nil {
		a, err = wire.Parse(answer)
	}
	if takes {
		c.mu.Lock()
		if err != nil && !unsent(err) && action == script.Acquire {
			sl.stray = c.s.now() + c.ttl
			sl.strays++
		}
		sl.note(a, sent, err)
		c.mu.Unlock()
	}
	return a, err
}

// note keeps what an answer says. c.mu is held.
func (sl *slot) note(a wire.Answer, sent time.Duration, err error) {
	switch {
	case err != nil:
		if !sl.holds {
			sl.reply, sl.err = majority.Failed, err
		}
	case a.Kind == wire.Granted:
		sl.hold(a.Token, a.Waiting, sent)
	case a.Kind == wire.Queued:
		if sl.holds {
			return // the push has overtaken this answer
		}
		sl.reply, sl.stands, sl.asked, sl.last = majority.Queued, true, sent, a
	case a.Kind == wire.Gone:
		// It has nothing here any more. A push for what it had may be on its
		// way, so it does not ask again under this identity.
		sl.over, sl.holds, sl.stands = true, false, false
		if r := sl.r; r.slots[sl.i] == sl {
			r.slots[sl.i] = r.fresh(sl.i)
			r.slots[sl.i].reply = majority.Busy
		}
	default:
		sl.reply, sl.holds, sl.stands, sl.last = majority.Busy, false, false, a
	}
}

// hold notes that the node has granted, and counts from sent. c.mu is held.
func (sl *slot) hold(token uint64, waiting int, sent time.Duration) {
	c := sl.r.c
	if !sl.holds {
		sl.known = c.s.now()
	}
	sl.reply, sl.holds, sl.stands, sl.short = majority.Granted, true, false, false
	sl.token, sl.since = max(sl.token, token), max(sl.since, sent)
	if sl.waits = waiting; sl.i == sl.r.lead {
		c.waits = waiting
	}
}

// fail notes why nothing is to be expected of the node.
func (sl *slot) fail(err error) {
	sl.r.c.mu.Lock()
	defer sl.r.c.mu.Unlock()
	sl.reply, sl.err = majority.Failed, err
}

// acquire asks the node for the lock, and for a place in its line unless
// patience is 0.
func (sl *slot) acquire(limit time.Duration, patience string) error {
	c := sl.r.c
	_, err := sl.send(limit, script.Acquire,
		[]string{sl.id, c.ttlMS, c.life, c.want, patience, c.base})
	return err
}

// poll looks what has become of a place or a hold, and prolongs both.
func (sl *slot) poll(limit time.Duration) error {
	c := sl.r.c
	_, err := sl.send(limit, script.Poll,
		[]string{sl.id, c.ttlMS, c.retention, c.patience(), c.base})
	return err
}

// raise writes the token to the node, which must hold, and reads its mark: both
// after its grant.
func (sl *slot) raise(limit time.Duration, token uint64) error {
	c := sl.r.c
	met := make(chan error, 1)
	if !c.s.life.Go(func() { met <- c.view.read(sl.i, limit, "") }) {
		return ErrClosed
	}
	sl.gate <- struct{}{}
	answer, err := sl.node.call(limit, script.Raise, sl.keys,
		[]string{sl.id, wire.Number(token), c.retention})
	<-sl.gate
	if other := <-met; err == nil {
		err = other
	}
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if answer == "gone" {
		sl.holds, sl.reply, sl.err = false, majority.Failed, errForgot
		return errForgot
	}
	sl.token = max(sl.token, token)
	return nil
}

// giveBack ends what the slot has, as far as it can be known; what stays in
// doubt is cancelled in the background. It answers what was ended.
func (sl *slot) giveBack(limit time.Duration) (wire.Kind, error) {
	c := sl.r.c
	sl.gate <- struct{}{}
	c.mu.Lock()
	sl.over = true
	nothing := !sl.holds && !sl.stands && c.s.now() >= sl.stray
	until := max(sl.asked, sl.since) + c.ttl
	c.mu.Unlock()
	<-sl.gate
	if nothing {
		return wire.None, nil
	}
	a, err := sl.send(limit, script.Cancel, []string{sl.id, c.retention, c.base})
	if err != nil && !refused(err) {
		sl.owe(1, max(until, c.s.now()+limit))
	} else {
		sl.owe(0, 0)
	}
	return a.Kind, err
}

// owe has the node cancelled in the background until then, so often that it was found
// to have something. And what any acquire may yet take that was sent and not answered:
// each of them may arrive after another one of the slot was answered, or has arrived,
// and what that had taken was given back.
func (sl *slot) owe(times int, until time.Duration) {
	c := sl.r.c
	c.mu.Lock()
	if c.s.now() < sl.stray {
		times, until = times+sl.strays, max(until, sl.stray)
	}
	c.mu.Unlock()
	if times > 0 {
		args := []string{sl.id, c.retention, c.base}
		sl.node.owe(debt{keys: sl.keys, args: args, times: times, until: until})
	}
}

// replace gives back, in the background, what the round has on a node, and
// makes a new slot there that has nothing. c.mu is held.
func (r *round) replace(i int, limit time.Duration) {
	old := r.slots[i]
	old.over = true
	r.slots[i] = r.fresh(i)
	r.slots[i].reply = majority.Busy
	r.c.s.life.Go(func() { _, _ = old.giveBack(limit) })
}

// end ends the round: nothing more is taken in it. c.mu is held.
func (r *round) end() {
	if !r.ended {
		r.ended = true
		close(r.stop)
	}
}

// live reports whether the round is the claim's, and not over. c.mu is held.
func (r *round) live() bool { return !r.ended && r.c.round == r }

// all are the slots as they are now.
func (r *round) all() []*slot {
	r.c.mu.Lock()
	defer r.c.mu.Unlock()
	return append([]*slot(nil), r.slots...)
}

// abandon gives back what an ended round has on the nodes, in the background.
func (r *round) abandon(limit time.Duration) {
	for _, sl := range r.all() {
		r.c.s.life.Go(func() { _, _ = sl.giveBack(limit) })
	}
}

// replies are what the nodes have said so far, and who of them counts. c.mu is
// held.
func (r *round) replies() (replies []majority.Reply, counts []bool) {
	replies, counts = make([]majority.Reply, len(r.slots)), make([]bool, len(r.slots))
	for i, sl := range r.slots {
		replies[i] = sl.reply
		// A hold from before the instant from which the client may count its
		// lease could end before the client thinks so, as could one that is not confirmed.
		counts[i] = r.c.view.probation(i) == 0 && (!sl.holds || sl.since >= r.c.floor && !sl.short)
	}
	return replies, majority.Spare(replies, counts, r.ahead())
}

// ahead says which nodes drew tokens that no right clock can have come to. Once such
// a token is written to others, and one of them has lost its memory, it draws lower
// ones: its clock has yet to come there. Half of MaxTTL is allowed: who has lost its
// memory draws for none for all of it. c.mu is held.
func (r *round) ahead() []bool {
	list, s := make([]bool, len(r.slots)), r.c.s
	clock, ok := r.c.view.rightClock()
	if !ok {
		return list
	}
	latest := s.now() + clock + s.cfg.MaxTTL/2
	for i, sl := range r.slots {
		list[i] = sl.holds && sl.token > uint64(max(latest, 0)/time.Microsecond) // it is an instant in us
	}
	return list
}

// failures are why nodes cannot be counted on. c.mu is held.
func (r *round) failures() map[int]error {
	failed := make(map[int]error)
	for i, sl := range r.slots {
		if sl.reply == majority.Failed && sl.err != nil {
			failed[i] = sl.err
		} else if left := r.c.view.probation(i); left > 0 {
			failed[i] = &youngError{majority.Young, left}
		}
	}
	return failed
}

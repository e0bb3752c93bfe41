package main

import "slices"

// travelling is where requests travel together.
const travelling = "internal/batch/batch.go"

// ticking are the tests of the clock of the trust deadlines.
var ticking = check{"unit tests", ".", []string{"./internal/clock"}}

// inLease are those of how a lease begins and ends, and of who is told.
var inLease = slices.Concat(in("loss.go", by{dropping}, []mutant{{
	name: "a lease that is dropped is renewed all the same",
	old:  "	h.lock.client.renewer.StopRenewal(&h.Item)\n",
	mut:  "",
}, {
	name: "a stay of which all that is left was dropped is renewed",
	old:  "in *leaseState) bool { return !in.isDropped() })",
	mut:  "in *leaseState) bool { return true })",
}, {
	name: "a reader joins a hold that is not renewed any more",
	old:  "		h.unshare()\n",
	mut:  "		h.noNewLease = false\n",
}}), in("loss.go", by{dropping}, []mutant{{
	name: "a fixed lease that is dropped is reported",
	old:  "return !ls.hold.lock.client.simulated && !ls.hold.lock.noRenewal\n",
	mut:  "return !ls.hold.lock.client.simulated\n",
}}), in("lease.go", by{rules}, []mutant{{
	name: "a check after the deadline does not end the lease",
	old:  "	if ls.endWith(lost) {\n",
	mut:  "	if ls.cause == nil && lost == nil {\n",
}}), in("internal/clock/mixed_linux.go", by{ticking}, []mutant{{
	name: "a suspension is not counted until the boot clock is read again",
	old:  "mono-r.mono < fresh && (wall-mono-r.gap).Abs() <= tolerance {",
	mut:  "mono-r.mono < fresh && wall != 0 {",
}, {
	name: "a wall clock that was set back by the time of a suspension hides it for ever",
	old:  "mono-r.mono < fresh && (wall",
	mut:  "(wall",
}, {
	name: "the clock goes back when a suspension was read from a slow reading",
	old:  "		next.suspended = max(next.suspended, r.suspended)\n",
	mut:  "		next.suspended += 0 * r.suspended\n",
}, {
	name: "a slow reading of the boot clock is taken as it is",
	old:  "n < tries && (best < 0 || best > apart); n++ {",
	mut:  "n < 1; n++ {",
}}), in("lease.go", by{lessening}, []mutant{{
	name: "a released lease still waits for a context",
	old:  "	if waits {\n		e.stopContextWaits()\n	}\n",
	mut:  "	_ = waits\n",
}}), in("acquire.go", by{outlasting}, []mutant{{
	name: "an acquisition that got no answer is given no more time",
	old:  "leasetime.AcquireLimit(c.sender.Timeout, lk.ttl, at.unanswered)",
	mut:  "leasetime.AcquireLimit(c.sender.Timeout, lk.ttl, 0*at.unanswered)",
}}), in("hold.go", by{dropping}, []mutant{{
	name: "a lease that is dropped stops the renewals of other readers",
	old:  "reserved > 0 || slices.ContainsFunc(all, (*leaseState).inUse) {",
	mut:  "reserved > 0 || false && slices.ContainsFunc(all, (*leaseState).inUse) {",
}}), in("hold.go", by{rules}, []mutant{{
	name: "a hold is handed over while it is extended",
	old:  "x.unsettled == still && x.extending == 0 && !m.noNewLease",
	mut:  "x.unsettled == still && !m.noNewLease",
}}), in("hold.go", by{lessening}, []mutant{{
	name: "a lease of a closed client still waits for a context",
	old:  "			live.stopContextWaits()\n",
	mut:  "",
}}), in("multilease.go", by{rules}, []mutant{{
	name: "locks that are held together are renewed after one of them is lost",
	old:  "	mls.onEnd(mls.stopRenewal)\n",
	mut:  "",
}}), in("lock.go", by{dropping}, []mutant{{
	name: "the report of a dropped lease names a line of the library",
	old:  "caller(2)",
	mut:  "caller(1)",
}}), in("lock.go", by{rules}, []mutant{{
	name: "a loss that was seen early is not told",
	old:  "one.endWith(cause) || one.early {",
	mut:  "one.endWith(cause) {",
}}), in("loss.go", by{dropping}, []mutant{{
	name: "the loss of a dropped lease is told as well as its leak",
	old:  "slices.DeleteFunc(live, (*leaseState).isDropped)",
	mut:  "slices.DeleteFunc(live, func(*leaseState) bool { return false })",
}}), in("events.go", by{telling}, []mutant{{
	name: "the log handler runs where leases are lost",
	old:  "	if item.event.Kind == 0 && (item.log == nil || !n.logs) {\n",
	mut:  "	if item.log != nil && n.logs {\n		item.log(n.log)\n	}\n	if item.event.Kind == 0 {\n",
}, {
	name: "the observer is told of a release before a renewal that came first",
	old:  "	if h.untold > 0 {\n",
	mut:  "	if h.untold < 0 {\n",
}, {
	name: "what a blocked observer would be told is not bounded",
	old:  "		most = mostRenewals\n",
	mut:  "		most = mostNews\n",
}, {
	name: "an observer that missed something is not told so",
	old:  "		if dropped > 0 {\n",
	mut:  "		if dropped < 0 {\n",
}, {
	name: "the observer is told of a lease before its grant",
	old:  "known != nil && !bool(*known) && item.event.Kind != 0 {",
	mut:  "known != nil && bool(*known) && false {",
}}), in("client.go", by{rules}, []mutant{{
	name: "Close does not wait for what is still to be told",
	old:  "	c.events.lastNews()\n",
	mut:  "",
}}), in("internal/pushes/hub.go", by{waking, undoing}, []mutant{{
	name: "the hub tells nobody of a push for nobody",
	old:  "		h.stray(number) ",
	mut:  "		",
}}), in("internal/pushes/hub.go", by{waking}, []mutant{{
	name: "a waiter that comes just after the confirmation has no subscription",
	old:  "			h.use(s)\n		default:\n			s = nil\n",
	mut:  "			s = nil\n		default:\n			s = nil\n",
}, {
	name: "a channel that nobody waits on is kept for ever",
	old:  "	s.idle = time.AfterFunc(h.idleTimeout, func() { h.retire(s) })\n",
	mut:  "	_ = h.retire\n",
}}), in("internal/renewer/renewer.go", by{rules}, []mutant{{
	name: "a renewal takes a loss back that was seen",
	old:  "	it.cut = over\n",
	mut:  "",
}}), in("internal/renewer/renewer.go", by{keeping}, []mutant{{
	name: "a renewal that failed is not tried again",
	old:  "				a.next = min(a.retryAt(now), a.Deadline())\n",
	mut:  "				a.next = a.Deadline()\n",
}, {
	name: "a renewal may take longer than the lease lasts",
	old:  "		bound = min(bound, a.Deadline()-sent)\n		if a.unconfirmed",
	mut:  "		if a.unconfirmed",
}, {
	name: "a request renews any number of leases",
	old:  "slices.Chunk(leases, batchMax)",
	mut:  "slices.Chunk(leases, len(leases))",
}, {
	name: "leases of two servers share a request",
	old:  "due[name] = append(due[name], r.ask(",
	mut:  "due[\"\"] = append(due[\"\"], r.ask(",
}, {
	name: "a deadline moves back",
	old:  "	d = max(d, it.Deadline())\n",
	mut:  "",
}, {
	name: "an extension to a shorter TTL renews before that is due",
	old:  "	it.due = max(it.due, leasetime.RenewAt(sent, ttl))\n",
	mut:  "	it.due = leasetime.RenewAt(sent, ttl)\n",
}, {
	name: "renewals that are nearly due travel alone",
	old:  "it.next-leasetime.Slack(it.TTL) > now",
	mut:  "it.next > now",
}, {
	name: "all renewals that are nearly due are sent early",
	old:  "n > 0 && n%batchMax == 0) {",
	mut:  "n < 0 && n%batchMax == 0) {",
}, {
	name: "a shortened lease is trusted until its old deadline",
	old:  "		it.trust.Store(int64(d))\n		it.Limits.noteDeadline(d) // NotAfter",
	mut:  "		it.Limits.noteDeadline(d) // NotAfter",
}, {
	name: "the answer of an older renewal makes a shortened lease longer",
	old:  "	if it.cut == shortened {\n		ttl = min(ttl, it.TTL)\n	}\n	d :=",
	mut:  "	d :=",
}, {
	name: "a lease is shortened while a renewal asks for more",
	old:  "	if it.step != underWay {\n		return nil, true\n	}\n",
	mut:  "	if true {\n		return nil, true\n	}\n",
}, {
	name: "the last try of a silent server ends, and a pause follows",
	old:  "					a.next = now // after a pause it might be too late\n",
	mut:  "					_ = 0\n",
}}), in("internal/renewer/turn.go", by{keeping}, []mutant{{
	name: "a late server gets every renewal",
	old:  "return g != nil && g.window.Limited() }",
	mut:  "return g != nil && g.window.Limited() && false }",
}, {
	name: "a lease waits for its turn until it is lost",
	old:  "return it.Deadline() - r.cfg.Timeout }",
	mut:  "return it.Deadline() }",
}, {
	name: "the most urgent lease is sent last",
	old:  "return t[i].urgent < t[j].urgent }",
	mut:  "return t[i].urgent > t[j].urgent }",
}, {
	name: "a late server gets any number of leases in a request",
	old:  "len(g.waiting) > 0 && len(batch) < batchMax {",
	mut:  "len(g.waiting) > 0 {",
}, {
	name: "a server that loses a renewal is late",
	old:  "bound < r.cfg.Timeout || g.answered-sent > r.cfg.Timeout/4:",
	mut:  "bound < r.cfg.Timeout:",
}, {
	name: "a late server is on time after each pause",
	old:  "	case g.window.Limited():\n",
	mut:  "	case false:\n",
}, {
	name: "a late server is remembered for ever",
	old:  "		if over && g.window.Idle()",
	mut:  "		if false && g.window.Idle()",
}, {
	name: "a lease that was extended waits for its turn all the same",
	old:  "	if it.step == waiting {\n		it.step = idle\n	}\n",
	mut:  "",
}}), in("internal/window/window.go", by{limiting}, []mutant{{
	name: "a late answer raises the limit of renewals",
	old:  "max(min(w.limit, w.under/2), least)",
	mut:  "max(w.under/2, least)",
}, {
	name: "all renewals that wait are sent at once",
	old:  "	case !crowd:\n",
	mut:  "	default:\n",
}}), in("internal/renewer/item.go", by{keeping}, []mutant{{
	name: "a fixed lease is renewed",
	old:  "(it.NoRenewal || it.reached()) && !it.unconfirmed",
	mut:  "it.reached() && !it.unconfirmed",
}, {
	name: "a confirmation that failed is tried again as late as a renewal",
	old:  "	if it.unconfirmed {\n		return leasetime.RetryAt(now, it.Deadline()-now)\n	}\n",
	mut:  "	if it.unconfirmed {\n		return it.Deadline()\n	}\n",
}}), in("internal/leasetime/leasetime.go", by{lasting}, []mutant{{
	name: "the first waiter polls as late as the others",
	old:  "min(max(place-1, 0), 50)",
	mut:  "min(max(place, 0), 50)",
}, {
	name: "the lease that must cover a time ends with it",
	old:  "	ttl := (d+2*time.Millisecond)*100/99 + time.Millisecond\n",
	mut:  "	ttl := d\n",
}, {
	name: "a position is kept for one heartbeat only",
	old:  "	return 3 * Heartbeat(ttl)\n",
	mut:  "	return Heartbeat(ttl)\n",
}, {
	name: "a push is believed though nothing is left of its lease",
	old:  "-now >= p.Lease*2/3",
	mut:  "-now >= 0",
}, {
	name: "a push from later than now is believed",
	old:  "passed >= 0 && passed <= most.Milliseconds()",
	mut:  "passed >= 0 && most >= 0",
}}), in("internal/leasetime/leasetime.go", by{lasting, keeping}, []mutant{{
	name: "the confirmation of a push has all that is left",
	old:  "{ return left / 2 }",
	mut:  "{ return left }",
}}), in("loss.go", by{dropping}, []mutant{{
	name: "a released lease keeps the check that the next lease of its hold has",
	old:  "	c.state, l.check = nil, nil\n",
	mut:  "	c.state = nil\n",
}}), in("internal/localqueue/list.go", by{queuing}, []mutant{{
	name: "the turn goes to the last goroutine and not to the first",
	old:  "	first := l.last.next\n",
	mut:  "	first := l.last\n",
}, {
	name: "a goroutine that has got the turn may leave without it",
	old:  "	if p.next == nil {\n		return false\n",
	mut:  "	if p.next == nil {\n		return true\n",
}}), in("internal/localqueue/queue.go", by{queuing}, []mutant{{
	name: "a waiter that leaves a closed queue too late gives up the turn of the holder",
	old:  "	case left, p.err != nil, p.hold",
	mut:  "	case left, p.hold",
}, {
	name: "a goroutine that comes to a closed queue waits for ever",
	old:  "	if s.closed {\n",
	mut:  "	if false {\n",
}, {
	name: "a hold that comes to a waiter as it leaves is held for ever",
	old:  "		q.rules.Release(p.hold, t.PassOn)\n",
	mut:  "		t.PassOn()\n",
}, {
	name: "a hold that comes to a waiter as it leaves keeps the turn",
	old:  "		q.rules.Release(p.hold, t.PassOn)\n",
	mut:  "		q.rules.Release(p.hold, func() {})\n",
}}), in("client.go", by{leaving}, []mutant{{
	name: "a goroutine that gives up waits for the release of the hold that comes",
	old:  "	inBackground(h.lock.client, func() {\n		discard(h)\n		then()\n	})\n",
	mut:  "	discard(h)\n	then()\n",
}}), in("client.go", by{leaving}, []mutant{{
	name: "a call whose context ends waits for what it gives back",
	old:  "	select {\n	case <-done:\n	case <-ctx.Done():\n	}\n",
	mut:  "	<-done\n",
}}), in("lease.go", by{rules}, []mutant{{
	name: "a loss that the caller notices first keeps the turn",
	old:  "		h.passTurnOn() // the caller may",
	mut:  "		// the caller may",
}}), in("internal/localqueue/queue.go", by{queuing}, []mutant{{
	name: "a lock that nobody holds or wants any more is kept in the local queue",
	old:  "	e.waits, e.unknown = false, false\n	if e.idle() {\n		s.drop(c, key, e)\n	}\n",
	mut:  "	e.waits, e.unknown = false, false\n",
}}), in("internal/localqueue/policy.go", by{queuing}, []mutant{{
	name: "a hold is passed inside a process for any time",
	old:  " && age < b.time",
	mut:  "",
}, {
	name: "a hold is passed once more often than its tokens last",
	old:  "	return handOvers < min(",
	mut:  "	return handOvers <= min(",
}, {
	name: "a reader joins though a writer of its process waits",
	old:  "	case writerHere:\n",
	mut:  "	case writerHere && false:\n",
}, {
	name: "a reader joins on an old word of the server",
	old:  "	case age >= shareFor:\n",
	mut:  "	case age >= 100*shareFor:\n",
}}), in(travelling, by{riding}, []mutant{{
	name: "a batch is not bounded",
	old:  "	n := min(len(b.queue), maxBatch)\n",
	mut:  "	n := len(b.queue)\n",
}, {
	name: "two small batches are sent beside each other",
	old:  "b.out > 0 && len(b.queue) < enough {",
	mut:  "b.out > 0 && len(b.queue) == 0 {",
}, {
	name: "no batch is sent beside another",
	old:  "	if b.out >= maxOut || ",
	mut:  "	if b.out > 0 || ",
}, {
	name: "what gathers behind a silent batch waits for it",
	old:  "	batch := b.take()\n	b.mu.Unlock()\n",
	mut:  "	batch := b.next()\n	b.mu.Unlock()\n",
}, {
	name: "a request that was taken back is sent",
	old:  "		if i.state.CompareAndSwap(queued, sent) {\n",
	mut:  "		if i.state.CompareAndSwap(queued, sent) || true {\n",
}, {
	name: "a request that waits loses its item to another one",
	old:  "			return answer, false\n",
	mut:  "",
}, {
	name: "the item of a request that was sent does not send the next one",
	old:  "	i.state.Store(queued)\n",
	mut:  "",
}}), in("internal/wire/answer.go", by{reading}, []mutant{{
	name: "a push of no lease is read as a grant",
	old:  " || a.Now == 0 || a.Lease == 0 {",
	mut:  " {",
}}), in("lease.go", by{lessening}, []mutant{{
	name: "a release at the end of a context stops with that context",
	old:  "ls.reportRelease(release(context.WithoutCancel(ctx)))",
	mut:  "ls.reportRelease(ctx.Err())",
}}), in("renewal.go", by{lessening}, []mutant{{
	name: "an extension that was under way undoes a shortening",
	old:  "most < ttl {\n\t\t_ = lessening",
	mut:  "most < 0 {\n\t\t_ = lessening",
}, {
	name: "the other entries of an owner trust a lease that one of them shortens",
	old:  "	case h.lock.owner != \"\":\n",
	mut:  "	case h.lock.owner == \"-\":\n",
}, {
	name: "permits without an answer stay taken",
	old:  "		less.later()\n",
	mut:  "",
}}), in("script/lessen.lua", by{oracle, transcripts}, []mutant{{
	name: "permits are released twice by a request that comes twice",
	old:  "keeps = math.min(keeps, permits)",
	mut:  "keeps = math.max(keeps - permits, 1)",
}, {
	name: "a late copy of a request makes a lease longer",
	old:  "math.min(till, now + ttl) or till",
	mut:  "now + ttl or till",
}, {
	name: "no waiter is told that a lease was shortened",
	old:  "then ask_first_to_poll(till - now) end",
	mut:  "then end",
}, {
	name: "the sooner end of a share is not noticed",
	old:  "  note_expiry(till)\n",
	mut:  "",
}, {
	name: "permits that come back are granted to nobody",
	old:  "serve_queue()\nif earlier",
	mut:  "if earlier",
}}), in("script/resume.lua", by{oracle, transcripts}, []mutant{{
	name: "a leader is resumed by whoever names it, under any token",
	old:  "(holds(former) and text(fence) == token)",
	mut:  "holds(former)",
}, {
	name: "a repeated resumption counts from the first copy",
	old:  "if again then reacquire(attempt, nil, ttl, false) end\n",
	mut:  "",
}}), in("election.go", by{rules}, []mutant{{
	name: "a leader resumes while the former still believes",
	old:  "until := c.now() + left + left/100 + 2*time.Millisecond\n",
	mut:  "until := c.now() + left/1000\n",
}, {
	name: "a client that closes while it resumes returns the leadership too early",
	old:  "	case c.life.IsClosing():\n		err = ErrClosed\n	case l.Err() != nil:\n",
	mut:  "	case c.life.IsClosing():\n	case l.Err() != nil:\n",
}, {
	name: "a resumption goes on after its context has ended",
	old:  "either, cancel := context.WithCancel(ctx)",
	mut:  "either, cancel := context.WithCancel(context.WithoutCancel(ctx))",
}}))

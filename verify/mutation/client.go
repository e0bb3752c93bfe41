package main

import "slices"

// inClient are those of the library outside of the scripts.
var inClient = slices.Concat(in("wait.go", by{rules}, []mutant{{
	name: "the pause after a silence gets longer by what was said before",
	old:  "silence == nil || freeAt < due {",
	mut:  "silence == nil || freeAt != due {",
}, {
	name: "a call waits at a node of a Cluster that does not have the lock",
	old:  " || elsewhere(r.c, err)",
	mut:  "",
}, {
	name: "a call that waits asks for ever when the lock's slot has moved away",
	old:  " || elsewhere(c, err)",
	mut:  "",
}, {
	name: "what arrived before a poll counts after its answer",
	old:  "		at.waiter.Drain() // the poll",
	mut:  "		// the poll",
}, {
	name: "a pushed grant of a fixed lease is believed without being asked about",
	old:  "!at.inQueue || at.lock.noRenewal || ",
	mut:  "!at.inQueue || ",
}, {
	name: "a pushed lease is believed for longer than was asked for",
	old:  "Lease: min(g.Lease, at.lock.ttl)}",
	mut:  "Lease: g.Lease}",
}}), in("wait.go", by{worlds, rules}, []mutant{{
	name: "a waiter never looks by itself",
	old:  "case <-time.After(due - c.now()):",
	mut:  "case <-time.After(1 << 60):",
}, {
	name: "a local pass without a new token",
	old:  "	h.handOvers.Add(1)\n	return true\n",
	mut:  "	return true\n",
}}), in("wait.go", by{rules, worlds}, []mutant{{
	name: "an attempt that gives up leaves its position behind",
	old:  "			at.cancel()\n			if silence != nil {\n",
	mut:  "			if silence != nil {\n",
}}), in("acquire.go", by{worlds, rules}, []mutant{{
	name: "the deadline is counted from the reply to an acquisition",
	old: "	sent := c.now()\n	limit := leasetime.AcquireLimit(c.sender.Timeout, lk.ttl, at.unanswered)\n" +
		"	a, err := c.sender.AskWithin(ctx, buf, limit, action, lk.keys(), args)\n",
	mut: "	limit := leasetime.AcquireLimit(c.sender.Timeout, lk.ttl, at.unanswered)\n" +
		"	a, err := c.sender.AskWithin(ctx, buf, limit, action, lk.keys(), args)\n	sent := c.now()\n",
}}), in("acquire.go", by{rules, worlds}, []mutant{{
	name: "what an acquisition of unknown outcome was granted is kept",
	old:  "	if at.needsCancel {\n		at.cancel()\n	}\n	end := request.Ended(ctx)\n",
	mut:  "	end := request.Ended(ctx)\n",
}}), in("internal/renewer/renewer.go", by{worlds, keeping}, []mutant{{
	name: "the deadline is counted from the reply to a renewal",
	old:  "			a.countFrom(sent, a.For)\n",
	mut:  "			a.countFrom(now, a.For)\n",
}, {
	name: "an expired lease is not signalled",
	old:  "	for _, it := range lost {\n		r.cfg.Lost(it, it.EndReason())\n",
	mut:  "	for _, it := range lost {\n		_ = it\n",
}, {
	name: "a lease is renewed after its release",
	old:  "	heap.Remove(&r.queue, int(it.index))\n	return true\n",
	mut:  "	return true\n",
}}), in("internal/renewer/renewer.go", by{keeping, rules}, []mutant{{
	name: "a pushed grant is renewed like any other",
	old:  "		it.due, it.next = now, min(now, it.Deadline())\n",
	mut:  "",
}}), in("internal/renewer/renewer.go", by{keeping}, []mutant{{
	name: "the confirmation of a pushed grant has the time of any request",
	old:  "			bound = min(bound, leasetime.ConfirmWithin(a.Deadline()-sent))\n",
	mut:  "			bound = min(bound, a.Deadline()-sent)\n",
}, {
	name: "the confirmation of a pushed grant counts as a renewal",
	old:  "a.Limits != nil && !a.unconfirmed {\n",
	mut:  "a.Limits != nil {\n",
}}), in("internal/leasetime/leasetime.go", by{lasting}, []mutant{{
	name: "a push counts from its arrival",
	old:  "	return p.Sent + waited - waited/100\n",
	mut:  "	return now\n",
}, {
	name: "a push is believed as far as the server's clock was set forward",
	old:  "n <= uint64(waited/time.Millisecond)+1",
	mut:  "n >= 0",
}, {
	name: "a push counts as if the server's milliseconds were exact",
	old:  "time.Duration(max(n, 1)-1) * time.Millisecond",
	mut:  "time.Duration(n) * time.Millisecond",
}, {
	name: "a push is believed without the drift of the clocks since the last answer",
	old:  "	return p.Sent + waited - waited/100\n",
	mut:  "	return p.Sent + waited\n",
}}), in("internal/leasetime/leasetime.go", by{lasting, rules}, []mutant{{
	name: "a push from before the last answer is trusted",
	old:  "return passed >= 0 && passed",
	mut:  "return passed",
}}), in("internal/leasetime/leasetime.go", by{worlds, lasting}, []mutant{{
	name: "no margin is taken off a lease",
	old:  "	return ttl/100 + 2*time.Millisecond\n",
	mut:  "	return 0\n",
}}), in("internal/pushes/hub.go", by{waking, rules}, []mutant{{
	name: "a waiter does not poll when its subscription is restored",
	old:  "		if w.sub != s {\n			continue\n",
	mut:  "		if w.sub != nil {\n			continue\n",
}, {
	name: "the subscription is not confirmed before the request that may queue",
	old:  "	case <-s.made:\n		err = s.err\n	case <-ctx.Done():\n		err = ctx.Err()\n	}\n",
	mut:  "	case <-ctx.Done():\n		err = ctx.Err()\n	default:\n	}\n",
}}), in("internal/request/cancel.go", by{rules, worlds}, []mutant{{
	name: "a cancel that came before its request is enough",
	old:  "		return answer.Kind != wire.None, err\n",
	mut:  "		return answer.Kind != wire.None || err == nil, err\n",
}, {
	name: "a cancel ends with the TTL although the server is silent",
	old:  "	return m.Silent + Outage\n",
	mut:  "	return m.Silent\n",
}, {
	name: "after an outage, one answer ends a cancel",
	old:  "	m.Known = max(m.Known, now+m.Late)\n",
	mut:  "",
}}), in("internal/request/cancel.go", by{requesting}, []mutant{{
	name: "the goroutine that reads pushes sends a cancel itself after the end",
	old:  "	c.send(Message{Known: now,",
	mut:  "	c.Until(Message{Known: now,",
}}), in("rwmutex.go", by{rules}, []mutant{{
	name: "a refusal settles a conversion whose outcome was unknown",
	old:  "	if err == nil || !repeats {\n",
	mut:  "	if err == nil || !repeats || true {\n",
}}), in("internal/localqueue/queue.go", by{leaving, rules}, []mutant{{
	name: "a goroutine that gives up keeps the turn",
	old:  "	default:\n		t.PassOn()\n",
	mut:  "",
}}), in("lease.go", by{rules, worlds}, []mutant{{
	name: "a hold that is lost, or that Close has released, becomes a lease",
	old:  "	if h.peek().lost != nil || h.closed {\n		return nil\n	}\n	h.lease, h.departed = ls, false\n",
	mut:  "	h.lease, h.departed = ls, false\n",
}}), in("internal/localqueue/policy.go", by{queuing, rules}, []mutant{{
	name: "passing inside the process has no bounds",
	old:  "	return handOvers < min(b.count, limit, maxHandOvers) && age < b.time\n",
	mut:  "	return handOvers < min(limit, maxHandOvers) || b.time == 0\n",
}}), in("hold.go", by{rules, worlds}, []mutant{{
	name: "a release of unknown outcome is left to the lease",
	old:  "			r.later(action, args)\n",
	mut:  "			_ = request.Transient(err)\n",
}, {
	name: "a hold is released although another reader has joined it",
	old:  "func (m *members) alone() bool { return m.shared && m.reading() == 0 }",
	mut:  "func (m *members) alone() bool { return m.shared && len(m.peek().readers) == 0 }",
}}), in("hold.go", by{worlds, rules}, []mutant{{
	name: "a release is stopped by its context",
	old:  ".run(timelimit.Lasting(ctx))\n",
	mut:  ".run(ctx)\n",
}, {
	name: "a reader joins a hold that is about to be a writer's",
	old:  "if x.lost != nil || m.closed || m.noNewLease || !m.shared || x.unsettled != still || m.reading() == 0 {",
	mut:  "if x.lost != nil || m.closed || !m.shared || m.reading() == 0 {",
}}), in("renewal.go", by{rules}, []mutant{{
	name: "a renewal that failed before the last one is the reason of a loss",
	old:  "	if r.Err != nil || h.peek().failed != nil {\n",
	mut:  "	if r.Err != nil {\n",
}, {
	name: "a swallowed WAIT count",
	old:  "	if !lk.ack.Wanted() || got.Covers(lk.ack.Need) {\n",
	mut:  "	if !lk.ack.Wanted() || got.Replicas >= 0 {\n",
}}), in("loss.go", by{worlds, rules}, []mutant{{
	name: "a lost lease leaves the turn to nobody",
	old:  "			h.passTurnOn()\n		}\n		reportLoss(h.lock.client, live, err)\n",
	mut:  "		}\n		reportLoss(h.lock.client, live, err)\n",
}}), in("client.go", by{rules}, []mutant{{
	name: "a push for an attempt of another process is accepted",
	old:  "		if err != nil || bad != nil || client != id {\n",
	mut:  "		if err != nil || bad != nil || client == \"\" {\n",
}}))

package main

// inClient are those of the library outside of the scripts.
var inClient = []mutant{{
	name: "the deadline is counted from the reply to an acquisition",
	file: "acquire.go",
	old: "	sent := c.now()\n	limit := leasetime.AskFor(c.sender.Timeout, s.ttl, at.late)\n" +
		"	a, err := c.sender.AskWithin(ctx, limit, action, s.keys(), args)\n",
	mut: "	limit := leasetime.AskFor(c.sender.Timeout, s.ttl, at.late)\n" +
		"	a, err := c.sender.AskWithin(ctx, limit, action, s.keys(), args)\n	sent := c.now()\n",
	by: []check{worlds, rules},
}, {
	name: "the deadline is counted from the reply to a renewal",
	file: "internal/renewer/renewer.go",
	old:  "			l.extend(sent, l.Asking)\n",
	mut:  "			l.extend(now, l.Asking)\n",
	by:   []check{worlds, keeping},
}, {
	name: "a push counts from its arrival",
	file: "internal/leasetime/leasetime.go",
	old:  "	return p.Sent + waited - waited/100\n",
	mut:  "	return now\n",
	by:   []check{lasting},
}, {
	name: "a push from before the last answer is trusted",
	file: "internal/leasetime/leasetime.go",
	old:  "return passed >= 0 && passed",
	mut:  "return passed",
	by:   []check{lasting, rules},
}, {
	name: "a push is believed as far as the server's clock was set forward",
	file: "internal/leasetime/leasetime.go",
	old:  "n < uint64(waited/time.Millisecond)",
	mut:  "n >= 0",
	by:   []check{lasting},
}, {
	name: "a push is believed without the drift of the clocks since the last answer",
	file: "internal/leasetime/leasetime.go",
	old:  "	return p.Sent + waited - waited/100\n",
	mut:  "	return p.Sent + waited\n",
	by:   []check{lasting},
}, {
	name: "a pushed grant is renewed like any other",
	file: "internal/renewer/renewer.go",
	old:  "		l.due, l.next = now, min(now, l.Deadline())\n",
	mut:  "",
	by:   []check{keeping, rules},
}, {
	name: "the confirmation of a pushed grant has the time of any request",
	file: "internal/renewer/renewer.go",
	old:  "			bound = min(bound, leasetime.ConfirmWithin(l.Deadline()-sent))\n",
	mut:  "			bound = min(bound, l.Deadline()-sent)\n",
	by:   []check{keeping},
}, {
	name: "the confirmation of a pushed grant counts as a renewal",
	file: "internal/renewer/renewer.go",
	old:  "			if !l.unconfirmed {\n				l.renewals++\n			}\n",
	mut:  "			l.renewals++\n",
	by:   []check{keeping},
}, {
	name: "a pushed grant of a fixed lease is believed without being asked about",
	file: "wait.go",
	old:  "!at.inQueue || at.lock.noRenewal || ",
	mut:  "!at.inQueue || ",
	by:   []check{rules},
}, {
	name: "a pushed lease is believed for longer than was asked for",
	file: "wait.go",
	old:  "Lease: min(g.Lease, at.lock.ttl)}",
	mut:  "Lease: g.Lease}",
	by:   []check{rules},
}, {
	name: "no margin is taken off a lease",
	file: "internal/leasetime/leasetime.go",
	old:  "	return ttl/100 + 2*time.Millisecond\n",
	mut:  "	return 0\n",
	by:   []check{worlds, lasting},
}, {
	name: "an expired lease is not signalled",
	file: "internal/renewer/renewer.go",
	old:  "	for _, l := range lost {\n		k.cfg.Lost(l, l.EndReason())\n",
	mut:  "	for _, l := range lost {\n		_ = l\n",
	by:   []check{worlds, keeping},
}, {
	name: "a waiter never looks by itself",
	file: "wait.go",
	old:  "			wake = WakePoll\n",
	mut:  "			continue\n",
	by:   []check{worlds, rules},
}, {
	name: "a waiter does not poll when its subscription is restored",
	file: "internal/pushes/hub.go",
	old:  "		if w.sub != s {\n			continue\n",
	mut:  "		if w.sub != nil {\n			continue\n",
	by:   []check{waking, rules},
}, {
	name: "the subscription is not confirmed before the request that may queue",
	file: "internal/pushes/hub.go",
	old:  "	case <-s.made:\n		err = s.err\n	case <-ctx.Done():\n		err = ctx.Err()\n	}\n",
	mut:  "	case <-ctx.Done():\n		err = ctx.Err()\n	default:\n	}\n",
	by:   []check{waking, rules},
}, {
	name: "what an acquisition of unknown outcome was granted is kept",
	file: "acquire.go",
	old:  "	if at.risk {\n		at.cancel()\n	}\n	end := request.Ended(ctx)\n",
	mut:  "	end := request.Ended(ctx)\n",
	by:   []check{rules, worlds},
}, {
	name: "a cancel that came before its request is enough",
	file: "internal/request/cancel.go",
	old:  "		return answer.Kind != wire.None, err\n",
	mut:  "		return answer.Kind != wire.None || err == nil, err\n",
	by:   []check{rules, worlds},
}, {
	name: "the goroutine that reads pushes sends a cancel itself after the end",
	file: "internal/request/cancel.go",
	old:  "	c.send(Message{Known: now,",
	mut:  "	c.Until(Message{Known: now,",
	by:   []check{requesting},
}, {
	name: "an attempt that gives up leaves its position behind",
	file: "wait.go",
	old:  "			timer.Stop()\n			at.cancel()\n			if silence != nil {\n",
	mut:  "			timer.Stop()\n			if silence != nil {\n",
	by:   []check{rules, worlds},
}, {
	name: "a goroutine that gives up keeps the turn",
	file: "internal/waitqueue/queue.go",
	old: "		if w.hold != none {\n			q.rules.Release(w.hold)\n		}\n" +
		"		t.Leave()\n",
	mut: "",
	by:  []check{leaving, rules},
}, {
	name: "a local pass without a new token",
	file: "wait.go",
	old:  "	h.passes.Add(1)\n	return true\n",
	mut:  "	return true\n",
	by:   []check{worlds, rules},
}, {
	name: "a hold that is lost, or that Close has released, becomes a lease",
	file: "lease.go",
	old:  "	if h.lost != nil || h.closed {\n		return nil\n	}\n	h.lease, h.departed = t, false\n",
	mut:  "	h.lease, h.departed = t, false\n",
	by:   []check{rules, worlds},
}, {
	name: "passing inside the process has no bounds",
	file: "internal/waitqueue/policy.go",
	old:  "	return handOvers < min(b.count, limit, maxHandOvers) && age < b.time\n",
	mut:  "	return handOvers < min(limit, maxHandOvers) || b.time == 0\n",
	by:   []check{queuing, rules},
}, {
	name: "a lease is renewed after its release",
	file: "internal/renewer/renewer.go",
	old:  "	heap.Remove(&k.queue, int(l.index))\n	return true\n",
	mut:  "	return true\n",
	by:   []check{worlds, keeping},
}, {
	name: "a release of unknown outcome is left to the lease",
	file: "hold.go",
	old:  "			r.later(action, args)\n",
	mut:  "			_ = request.Transient(err)\n",
	by:   []check{rules, worlds},
}, {
	name: "a release is stopped by its context",
	file: "hold.go",
	old:  ".run(timelimit.Lasting(ctx))\n",
	mut:  ".run(ctx)\n",
	by:   []check{worlds, rules},
}, {
	name: "a swallowed WAIT count",
	file: "renewal.go",
	old:  "	if !s.ack.Wanted() || got.Covers(s.ack.Need) {\n",
	mut:  "	if !s.ack.Wanted() || got.Replicas >= 0 {\n",
	by:   []check{rules},
}, {
	name: "a reader joins a hold that is about to be a writer's",
	file: "hold.go",
	old:  "if m.lost != nil || m.closed || m.last || !m.shared || m.unsettled != still || m.reading() == 0 {",
	mut:  "if m.lost != nil || m.closed || !m.shared || m.reading() == 0 {",
	by:   []check{worlds, rules},
}, {
	name: "a hold is released although another reader has joined it",
	file: "hold.go",
	old:  "func (m *members) alone() bool { return m.shared && m.reading() == 0 }",
	mut:  "func (m *members) alone() bool { return m.shared && len(m.readers) == 0 }",
	by:   []check{rules, worlds},
}, {
	name: "a lost lease leaves the turn to nobody",
	file: "renewal.go",
	old:  "			h.leaveTurn()\n		}\n		reportLoss(h.lock.client, live, err)\n",
	mut:  "		}\n		reportLoss(h.lock.client, live, err)\n",
	by:   []check{worlds, rules},
}, {
	name: "a push for an attempt of another process is accepted",
	file: "client.go",
	old:  "	if err != nil || bad != nil || client != c.id {\n",
	mut:  "	if err != nil || bad != nil || client == \"\" {\n",
	by:   []check{rules},
}}

package main

import "slices"

// The library in virtual time, of what a store, an observer and a reader are promised.
var promised = check{"bubble tests", ".", []string{
	"-run=AStoreIsTold|NeverShortened|FirstThatEnds|EarlierLeader|ShortAbsence|NotReenteredUnder|" +
		"GivesUpAsItIsGranted|AtOnceAreAck", ".",
}}

// Contexts with a limit.
var limits = check{"unit tests", ".", []string{"./internal/timelimit"}}

// inKinds are those of what only some kinds of lock do: elections, readers that become
// writers, several locks at once, permits, limits of a hold, and what people are shown.
var inKinds = slices.Concat(in("script/proclaim.lua", by{transcripts, oracle}, []mutant{{
	name: "a late proclamation undoes a later one",
	old:  "if said[1] == token and tonumber(said[2]) > tonumber(number) then return 'late' end\n",
	mut:  "",
}, {
	name: "a leader whose lease has expired proclaims",
	old:  " or expiry <= now then return 'gone' end",
	mut:  " then return 'gone' end",
}}), in("script/read_leader.lua", by{transcripts, oracle}, []mutant{{
	name: "a new leader is seen with the value of the one before",
	old:  "if token and token == text(fence) then\n",
	mut:  "if token then\n",
}}), in("script/release_after.lua", by{transcripts, oracle}, []mutant{{
	name: "a kept lock is free when it is released",
	old:  "  if till > now and (not entries",
	mut:  "  if till > now + 1000000 and (not entries",
}, {
	name: "waiters are not told that a kept lock is free sooner",
	old:  "    if nearer then ask_first_to_poll(till - now) end\n",
	mut:  "",
}}), in("script/acquire_all.lua", by{transcripts, oracle}, []mutant{{
	name: "of several locks those before the held one remain acquired",
	old:  "    for _, other in ipairs(locks) do other.drop() end\n",
	mut:  "",
}}), in("script/set_limit.lua", by{transcripts, oracle}, []mutant{{
	name: "a higher limit lets nobody in",
	old:  "  fields.limit = text(limit)\n  serve_queue()\n",
	mut:  "  fields.limit = text(limit)\n",
}}), in("script/acquire_free.lua", by{transcripts, oracle}, []mutant{{
	name: "a batch takes a lock that is held",
	old:  "elseif #last == 16 and find(last, '^%d+$') and",
	mut:  "elseif",
}}), in("script/release_idle.lua", by{transcripts, oracle}, []mutant{{
	name: "a batch releases another's lock",
	old:  " and sub(lock, -#attempt) == attempt then\n    done = ",
	mut:  " then\n    done = ",
}}), in("script/inspect.lua", by{transcripts, oracle}, []mutant{{
	name: "inspect counts expired holds",
	old:  "      if h[2] > now then\n",
	mut:  "      if h[2] > 0 then\n",
}, {
	name: "inspect reads the whole record in one step",
	old:  "  if next_cursor == '0' or seen >= sweep_window then break end\n",
	mut:  "  if next_cursor == '0' then break end\n",
}, {
	name: "inspect does not say that a page is not the last",
	old:  "if paged then\n",
	mut:  "if from then\n",
}}), in("internal/wire/inspect.go", by{reading}, []mutant{{
	name: "the pages of two servers are put together",
	old:  "page.run != pages[0].run {",
	mut:  "page.run == \"\" {",
}, {
	name: "a waiter that was granted the lock between two pages is shown as both",
	old:  "		delete(waiting, h.Attempt) //",
	mut:  "		delete(shared, h.Attempt) //",
}}), in("script/register_client.lua", by{transcripts, oracle}, []mutant{{
	name: "a client's record has no TTL",
	old:  "unpack(fields))\nredis.call('PEXPIRE', key, ttl)\n",
	mut:  "unpack(fields))\n",
}}), in("script/check_acl.lua", by{transcripts, oracle}, []mutant{{
	name: "a set-up without a needed command is found good",
	old:  "need('hdel', key, 'f')\n",
	mut:  "",
}}), in("rwmutex.go", by{rules}, []mutant{{
	name: "a reader of two becomes a writer at once",
	old: "	case h.shared && want == up && h.reading() > 1:\n" +
		"		return nil, false, &HeldError{Name: h.lock.name, HeldBy: attemptOf(h)}\n",
	mut: "",
}, {
	name: "a reader becomes a writer where another one keeps the lock",
	old:  "want == up && x.keptUntil > now:",
	mut:  "want == up && x.keptUntil > now+time.Hour:",
}, {
	name: "a step keeps its token",
	old:  "	ls.token.Store(h.token())\n",
	mut:  "",
}, {
	name: "a step of unknown outcome is forgotten",
	old:  "		steps = []conversion{x.unsettled, want}\n",
	mut:  "		steps = []conversion{want}\n",
}}), in("options.go", by{rules}, []mutant{{
	name: "a lock may have a maximum time below its minimum time",
	old:  "	case o.maxHold > 0 && o.minHold > o.maxHold:\n",
	mut:  "	case o.maxHold < 0:\n",
}, {
	name: "a reader's lease is longer than it may hold the lock",
	old:  "		kind.readTTL = min(kind.readTTL, leasetime.TTLFor(kind.maxHold))\n",
	mut:  "",
}, {
	name: "acknowledgements are waited for longer than a request may take",
	old:  "	case o.ack.Wanted() && o.ack.Total() >= c.cfg.RequestTimeout:\n",
	mut:  "	case o.ack.Wanted() && o.ack.Limit >= c.cfg.RequestTimeout:\n",
}}), in("multilease.go", by{promised}, []mutant{{
	name: "several locks are trusted as long as the last of them",
	old:  "		least = min(least, part.Remaining())\n",
	mut:  "		least = part.Remaining()\n",
}}), in("election_observe.go", by{promised}, []mutant{{
	name: "an observer is told of an older leader again",
	old:  "	case err == nil && leader.Term != 0 && leader.Term < o.highest:\n",
	mut:  "	case err == nil && leader.Term != 0 && leader.Term < 0:\n",
}, {
	name: "an observer is told at once that the server is away, although the leader's lease has not expired",
	old:  "	if o.c.now() >= o.until && !o.lost {\n",
	mut:  "	if !o.lost {\n",
}}), in("election_observe.go", by{rules}, []mutant{{
	name: "an observer of an election is told the same leader twice",
	old:  "changed := o.quiet || leader.Term != o.last.Term || leader.Value != o.last.Value",
	mut:  "changed := true",
}}), in("lock.go", by{rules}, []mutant{{
	name: "the lock is free when the first re-entry is released",
	old:  "	return root.left && len(in) == 0\n",
	mut:  "	return root.left || len(in) == 0\n",
}}), in("wait.go", by{rules}, []mutant{{
	name: "a waiter that cannot be pushed to waits for a push",
	old:  "	return at.c.pushing.mute.Load() || !at.c.hub.Reaches(at.waiter)\n",
	mut:  "	return false\n",
}, {
	name: "a waiter that could not subscribe in time polls for its whole wait",
	old:  "	if c.hub.Reaches(at.waiter) || !c.pushing.due(c.now()) {\n",
	mut:  "	if true {\n",
}, {
	name: "a loss and a release pass the turn on twice",
	old:  "	if h.hasTurn.Swap(false) {\n",
	mut:  "	if h.hasTurn.Load() {\n",
}}), in("acquire.go", by{rules}, []mutant{{
	name: "a reader joins a hold with another TTL",
	old:  "	return h.lock.client.renewer.TTL(&h.Item) == lk.ttl && h.lock.ack == lk.ack && h.lock.rw == lk.rw\n",
	mut:  "	return h.lock.ack == lk.ack && h.lock.rw == lk.rw\n",
}, {
	name: "a conversion uses the TTLs of another goroutine's options",
	old:  "h.lock.ack == lk.ack && h.lock.rw == lk.rw\n",
	mut:  "h.lock.ack == lk.ack && h.lock.rw.any() == lk.rw.any()\n",
}}), in("internal/pushes/hub.go", by{waking, rules}, []mutant{{
	name: "a late subscription is not for waiters that exist already",
	old:  "			w.sub = s\n			s.users++\n			w.tellResumed()\n",
	mut:  "",
}}), in("internal/request/preflight.go", by{rules}, []mutant{{
	name: "a missing permission is found only in the middle of a script",
	old:  "	if len(needed) > 0 {\n",
	mut:  "	if len(needed) > 99 {\n",
}}), in("internal/localqueue/shared.go", by{rules}, []mutant{{
	name: "readers of one process do not share a hold",
	old:  "	if q.rules.Joinable(h) {\n		e.hold = h\n	}\n	for e.tries",
	mut:  "	for e.tries",
}, {
	name: "readers that join together are not counted",
	old:  "	for e.queue.last != nil && q.rules.Reserve(h) {\n",
	mut:  "	for e.queue.last != nil && q.rules.Joinable(h) {\n",
}}), in("internal/localqueue/shared.go", by{queuing}, []mutant{{
	name: "a reader that only tries comes in and is not counted",
	old:  "	for e.tries.last != nil && q.rules.Reserve(h) {\n",
	mut:  "	for e.tries.last != nil && q.rules.Joinable(h) {\n",
}, {
	name: "a reader whose turn comes does what was right when it came",
	old:  "	if t.decide(s, e, want); t.Joined {\n",
	mut:  "	if t.Joined {\n",
}, {
	name: "a reader that tries is refused while the server is silent",
	old:  "	e.waits, e.unknown = true, refusal == nil\n",
	mut:  "	e.waits, e.unknown = true, false\n",
}, {
	name: "a reservation for a reader that tries and gives up is kept",
	old:  "	if !left && p.hold != none {\n",
	mut:  "	if left && p.hold != none {\n",
}}), in("internal/localqueue/queue.go", by{promised}, []mutant{{
	name: "a reservation for a reader that gives up is kept",
	old:  "		q.rules.Unreserve(p.hold)\n",
	mut:  "",
}}), in("internal/timelimit/timelimit.go", by{promised, limits}, []mutant{{
	name: "a deadline that has passed keeps a request open",
	old:  "	if !time.Now().Before(l.at) {\n",
	mut:  "	if false {\n",
}, {
	name: "a deadline that has just passed stops a release",
	old:  "bounded && time.Now().Before(at) //",
	mut:  "bounded //",
}, {
	name: "a time limit lengthens the caller's deadline",
	old:  "ok && earlier.Before(at) {",
	mut:  "ok && earlier.Before(at) && at.IsZero() {",
}}), in("config.go", by{rules}, []mutant{{
	name: "a TTL that the server cannot count is accepted",
	old:  "	case ttl%time.Millisecond != 0:\n",
	mut:  "	case ttl < 0:\n",
}, {
	name: "a request may take so long that no renewal is tried again",
	old:  "	case c.RequestTimeout > c.TTL/2:\n",
	mut:  "	case c.RequestTimeout > 2*c.TTL:\n",
}}), in("script/evict.lua", by{transcripts, oracle}, []mutant{{
	name: "an eviction by an old token takes the permits of others",
	old:  "if only == '0' or h[4] == only then",
	mut:  "if true then",
}}), in("inspect.go", by{rules}, []mutant{{
	name: "holds of the evicting process go on",
	old:  "			if c.renewer.Remove(&h.Item) {\n",
	mut:  "			if false {\n",
}, {
	name: "a token that no hold can have evicts every hold",
	old:  "	if token == 0 && e.Token != 0 {\n",
	mut:  "	if false {\n",
}}), in("acquire.go", by{rules}, []mutant{{
	name: "a lease keeps the tags of the one before",
	old:  "					tagHold(handedOver, lk.tags)\n",
	mut:  "",
}}), in("internal/request/registration.go", by{rules}, []mutant{{
	name: "notes on attempts that are over are never removed",
	old:  "		n.gone = append(n.gone, field)\n",
	mut:  "",
}, {
	name: "a client announces itself once",
	old:  "time.AfterFunc(refreshEvery, r.refresh)",
	mut:  "time.AfterFunc(99*registrationTTL, r.refresh)",
}}))

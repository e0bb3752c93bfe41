package main

// The library in virtual time, of what a store, an observer and a reader are promised.
var promised = check{"bubble tests", ".", []string{
	"-run=AStoreIsTold|NeverShortened|FirstThatEnds|EarlierLeader|ShortAbsence|NotReenteredUnder|" +
		"GivesUpAsItIsGranted|AtOnceAreAck", ".",
}}

// inKinds are those of what only some kinds of lock do: elections, readers that become
// writers, several locks at once, permits, limits of a hold, and what people are shown.
var inKinds = []mutant{{
	name: "a late proclamation undoes a later one",
	file: "script/proclaim.lua",
	old:  "if said[1] == token and tonumber(said[2]) > tonumber(number) then return 'late' end\n",
	mut:  "",
	by:   []check{transcripts, oracle},
}, {
	name: "a leader whose lease has expired proclaims",
	file: "script/proclaim.lua",
	old:  " or expiry <= now then return 'gone' end",
	mut:  " then return 'gone' end",
	by:   []check{transcripts, oracle},
}, {
	name: "a new leader is seen with the value of the one before",
	file: "script/read_leader.lua",
	old:  "if token and token == text(fence) then\n",
	mut:  "if token then\n",
	by:   []check{transcripts, oracle},
}, {
	name: "a kept lock is free when it is released",
	file: "script/release_after.lua",
	old:  "  if till > now and (not entries",
	mut:  "  if till > now + 1000000 and (not entries",
	by:   []check{transcripts, oracle},
}, {
	name: "waiters are not told that a kept lock is free sooner",
	file: "script/release_after.lua",
	old:  "    if nearer then ask_first_to_poll(till - now) end\n",
	mut:  "",
	by:   []check{transcripts, oracle},
}, {
	name: "of several locks those before the held one remain acquired",
	file: "script/acquire_all.lua",
	old:  "    for _, other in ipairs(locks) do other.drop() end\n",
	mut:  "",
	by:   []check{transcripts, oracle},
}, {
	name: "a higher limit lets nobody in",
	file: "script/set_limit.lua",
	old:  "  fields.limit = text(limit)\n  serve_queue()\n",
	mut:  "  fields.limit = text(limit)\n",
	by:   []check{transcripts, oracle},
}, {
	name: "a batch takes a lock that is held",
	file: "script/acquire_free.lua",
	old:  "elseif #last == 16 and string.find(last, '^%d+$') and",
	mut:  "elseif",
	by:   []check{transcripts, oracle},
}, {
	name: "a batch releases another's lock",
	file: "script/release_idle.lua",
	old:  "if known and string.sub(lock, -#attempt - 1) == ' ' .. attempt and",
	mut:  "if known and",
	by:   []check{transcripts, oracle},
}, {
	name: "inspect counts expired holds",
	file: "script/inspect.lua",
	old:  "    if h[2] > now then\n",
	mut:  "    if h[2] > 0 then\n",
	by:   []check{transcripts, oracle},
}, {
	name: "a client's record has no TTL",
	file: "script/register_client.lua",
	old:  "unpack(fields))\nredis.call('PEXPIRE', key, ttl)\n",
	mut:  "unpack(fields))\n",
	by:   []check{transcripts, oracle},
}, {
	name: "a set-up without a needed command is found good",
	file: "script/check_acl.lua",
	old:  "need('hdel', key, 'f')\n",
	mut:  "",
	by:   []check{transcripts, oracle},
}, {
	name: "a reader of two becomes a writer at once",
	file: "rwmutex.go",
	old: "	case h.shared && want == up && h.reading() > 1:\n" +
		"		return nil, false, &HeldError{Name: h.lock.name, HeldBy: h.attempt}\n",
	mut: "",
	by:  []check{rules},
}, {
	name: "a step keeps its token",
	file: "rwmutex.go",
	old:  "	t.token.Store(h.token())\n",
	mut:  "",
	by:   []check{rules},
}, {
	name: "a step of unknown outcome is forgotten",
	file: "rwmutex.go",
	old:  "		steps = []conversion{h.unsettled, want}\n",
	mut:  "		steps = []conversion{want}\n",
	by:   []check{rules},
}, {
	name: "a lock may have a maximum time below its minimum time",
	file: "options.go",
	old:  "	case ch.maxHold > 0 && ch.minHold > ch.maxHold:\n",
	mut:  "	case ch.maxHold < 0:\n",
	by:   []check{rules},
}, {
	name: "a reader's lease is longer than it may hold the lock",
	file: "options.go",
	old:  "		kind.read = min(kind.read, leasetime.TTLFor(kind.maxHold))\n",
	mut:  "",
	by:   []check{rules},
}, {
	name: "acknowledgements are waited for longer than a request may take",
	file: "options.go",
	old:  "	case ch.ack.Wanted() && ch.ack.Total() >= c.cfg.RequestTimeout:\n",
	mut:  "	case ch.ack.Wanted() && ch.ack.Limit >= c.cfg.RequestTimeout:\n",
	by:   []check{rules},
}, {
	name: "several locks are trusted as long as the last of them",
	file: "multilease.go",
	old:  "		least = min(least, part.Remaining())\n",
	mut:  "		least = part.Remaining()\n",
	by:   []check{promised},
}, {
	name: "an observer is told of an older leader again",
	file: "election_observe.go",
	old:  "	case err == nil && leader.Term != 0 && leader.Term < o.highest:\n",
	mut:  "	case err == nil && leader.Term != 0 && leader.Term < 0:\n",
	by:   []check{promised},
}, {
	name: "an observer of an election is told the same leader twice",
	file: "election_observe.go",
	old:  "changed := o.quiet || leader.Term != o.last.Term || leader.Value != o.last.Value",
	mut:  "changed := true",
	by:   []check{rules},
}, {
	name: "an observer is told at once that the server is away, although the leader's lease has not expired",
	file: "election_observe.go",
	old:  "	if o.c.now() >= o.until && !o.lost {\n",
	mut:  "	if !o.lost {\n",
	by:   []check{promised},
}, {
	name: "the lock is free when the first re-entry is released",
	file: "lock.go",
	old:  "	return first.left && len(in) == 0\n",
	mut:  "	return first.left || len(in) == 0\n",
	by:   []check{rules},
}, {
	name: "a waiter that cannot be pushed to waits for a push",
	file: "wait.go",
	old:  "	return at.c.pushing.mute.Load() || !at.c.hub.Reaches(at.w)\n",
	mut:  "	return false\n",
	by:   []check{rules},
}, {
	name: "a waiter that could not subscribe in time polls for its whole wait",
	file: "wait.go",
	old:  "	if c.hub.Reaches(at.w) || !c.pushing.due(c.now()) {\n",
	mut:  "	if true {\n",
	by:   []check{rules},
}, {
	name: "a late subscription is not for waiters that exist already",
	file: "internal/pushes/hub.go",
	old:  "			w.sub = s\n			s.users++\n			w.recheck()\n",
	mut:  "",
	by:   []check{waking, rules},
}, {
	name: "a missing permission is found only in the middle of a script",
	file: "internal/request/preflight.go",
	old:  "	if len(needed) > 0 {\n",
	mut:  "	if len(needed) > 99 {\n",
	by:   []check{rules},
}, {
	name: "readers of one process do not share a hold",
	file: "internal/waitqueue/shared.go",
	old:  "	if q.rules.Joinable(h) {\n		e.hold = h\n	}\n	for e.tries",
	mut:  "	for e.tries",
	by:   []check{rules},
}, {
	name: "readers that join together are not counted",
	file: "internal/waitqueue/shared.go",
	old:  "	for e.queue.last != nil && q.rules.Reserve(h) {\n",
	mut:  "	for e.queue.last != nil && q.rules.Joinable(h) {\n",
	by:   []check{rules},
}, {
	name: "a reader that only tries comes in and is not counted",
	file: "internal/waitqueue/shared.go",
	old:  "	for e.tries.last != nil && q.rules.Reserve(h) {\n",
	mut:  "	for e.tries.last != nil && q.rules.Joinable(h) {\n",
	by:   []check{queuing},
}, {
	name: "a reader whose turn comes does what was right when it came",
	file: "internal/waitqueue/shared.go",
	old:  "	if t.decide(s, e, want); t.Joined {\n",
	mut:  "	if t.Joined {\n",
	by:   []check{queuing},
}, {
	name: "a reader that tries is refused while the server is silent",
	file: "internal/waitqueue/shared.go",
	old:  "	e.waits, e.unknown = true, err == nil\n",
	mut:  "	e.waits, e.unknown = true, false\n",
	by:   []check{queuing},
}, {
	name: "a reader joins a hold with another TTL",
	file: "wait.go",
	old:  "	return h.lock.client.renewer.TTL(&h.Item) == s.ttl && h.lock.ack == s.ack && h.lock.tags == s.tags\n",
	mut:  "	return h.lock.ack == s.ack\n",
	by:   []check{rules},
}, {
	name: "a reservation for a reader that gives up is kept",
	file: "internal/waitqueue/queue.go",
	old:  "		q.rules.Unreserve(w.hold)\n",
	mut:  "",
	by:   []check{promised},
}, {
	name: "a reservation for a reader that tries and gives up is kept",
	file: "internal/waitqueue/shared.go",
	old:  "	if !left && w.hold != none {\n",
	mut:  "	if left && w.hold != none {\n",
	by:   []check{queuing},
}, {
	name: "a deadline that has passed keeps a request open",
	file: "internal/timelimit/timelimit.go",
	old:  "	if !time.Now().Before(l.at) {\n",
	mut:  "	if false {\n",
	by:   []check{promised},
}, {
	name: "a time limit lengthens the caller's deadline",
	file: "internal/timelimit/timelimit.go",
	old:  "ok && earlier.Before(at) {",
	mut:  "ok && earlier.Before(at) && at.IsZero() {",
	by:   []check{promised},
}, {
	name: "a TTL that the server cannot count is accepted",
	file: "config.go",
	old:  "	case ttl%time.Millisecond != 0:\n",
	mut:  "	case ttl < 0:\n",
	by:   []check{rules},
}, {
	name: "a request may take so long that no renewal is tried again",
	file: "config.go",
	old:  "	case c.RequestTimeout > c.TTL/2:\n",
	mut:  "	case c.RequestTimeout > 2*c.TTL:\n",
	by:   []check{rules},
}, {
	name: "an eviction by an old token takes the permits of others",
	file: "script/evict.lua",
	old:  "function(token) return only == '0' or token == only end",
	mut:  "function() return true end",
	by:   []check{transcripts, oracle},
}, {
	name: "holds of the evicting process go on",
	file: "inspect.go",
	old:  "			if c.renewer.Remove(&h.Item) {\n",
	mut:  "			if false {\n",
	by:   []check{rules},
}, {
	name: "a lease keeps the tags of the one before",
	file: "acquire.go",
	old:  "					tagHold(passed, s.tags)\n",
	mut:  "",
	by:   []check{rules},
}, {
	name: "notes on attempts that are over are never removed",
	file: "internal/request/registration.go",
	old:  "		n.gone = append(n.gone, field)\n",
	mut:  "",
	by:   []check{rules},
}, {
	name: "a client announces itself once",
	file: "internal/request/registration.go",
	old:  "time.AfterFunc(refreshEvery, r.refresh)",
	mut:  "time.AfterFunc(99*registrationTTL, r.refresh)",
	by:   []check{rules},
}}

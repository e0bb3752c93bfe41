package main

import "slices"

// The checks.
var (
	// The worlds of the simulation: the library over memstore, in virtual time.
	worlds = check{"simulation", "verify", []string{"-run=TestWorlds$", "./sim"}}
	// The scripts against memstore, step by step, with the invariants as assertions.
	// Nobody reads how: the sequence that it found need not be made shorter. The seed is fixed,
	// so that chance lets no mutant live.
	oracle = check{"oracle", "verify", []string{"./oracle", "-rapid.shrinktime=1ms", "-rapid.seed=1"}}
	// The scripts against their golden transcripts.
	transcripts = check{"transcripts", ".", []string{"./script"}}
	// The library in virtual time, one rule a test.
	rules = check{"bubble tests", ".", []string{"."}}
	// The same, of what one mutant is about.
	dropping = check{"bubble tests", ".", []string{"-run=Dropped|Leak", "-timeout=60s", "."}}
	telling  = check{"bubble tests", ".", []string{
		"-run=Handler|EventsOf|Observer|BeforeItsGrant", "-timeout=60s", ".",
	}}
	leaving   = check{"bubble tests", ".", []string{"-run=GivesUpAsItGets|ACancellationThatRaces", "-timeout=60s", "."}}
	undoing   = check{"bubble tests", ".", []string{"-run=Cancel|Abandoned|Position", "-timeout=60s", "."}}
	lessening = check{"bubble tests", ".", []string{
		"-run=Context|Permits|Shorte|Handed", "-timeout=60s", ".",
	}}
	// Its parts that decide, each by itself.
	keeping    = check{"unit tests", ".", []string{"./internal/renewer"}}
	lasting    = check{"unit tests", ".", []string{"./internal/leasetime"}}
	queuing    = check{"unit tests", ".", []string{"./internal/waitqueue"}}
	waking     = check{"unit tests", ".", []string{"./internal/pushes"}}
	riding     = check{"unit tests", ".", []string{"./internal/batch"}}
	reading    = check{"unit tests", ".", []string{"./internal/wire"}}
	requesting = check{"unit tests", ".", []string{"./internal/request"}}
	// How things are named, and how refusals are told apart.
	naming   = check{"unit tests", ".", []string{"./internal/wire"}}
	refusing = check{"unit tests", ".", []string{"./internal/adapter"}}
	// What lists the locks.
	finding = check{"unit tests", ".", []string{"./internal/scan"}}
	listing = check{"bubble tests", ".", []string{"-run=List", "-timeout=60s", "."}}
	// Locks over several servers: what their answers mean, and the store in virtual time.
	counting = check{"unit tests", ".", []string{"./internal/majority"}}
	uniting  = check{"bubble tests", ".", []string{"./quorum"}}
	// What waits for a free lock, and does not acquire it.
	watching = check{"bubble tests", ".", []string{
		"-run=Watch|Freedom|Await|FreeLockIsFound|WaitForWhat", "-timeout=60s", ".",
	}}
	// The process that ends a command whose wrapper cannot.
	guarding = check{"unit tests", "cmd/holdfast", []string{"-timeout=2m", "./internal/proc"}}
	// The tool's file with the term of a leader.
	resuming = check{"tool's scripts", "cmd/holdfast", []string{"-timeout=2m", "-run=TestScripts$/^state_linux$", "."}}
)

// mutants are all that there are.
var mutants = slices.Concat(inScripts, inMemstore, inClient, inConnections, inAdapters,
	inLease, inKinds, inWatching, inJobs, inListing, inQuorum, inGuardian, inState, inDeadlocks, inGuards,
	inStringLocks)

// inScripts are those of the scripts.
var inScripts = []mutant{{
	name: "a lease from before the clock was set back is kept for twice as long",
	file: "script/record.lua",
	old:  "life_ms = text(math.max(record_life, ahead) + retention)",
	mut:  "life_ms = text(record_life + ahead + retention)",
	by:   []check{transcripts},
}, {
	name: "an evicted holder is not pushed",
	file: "script/evict.lua",
	old:  "for _, attempt in ipairs(names) do send(attempt, 'evicted ' .. attempt) end\n",
	mut:  "",
	by:   []check{oracle, transcripts},
}, {
	name: "a waiter that was skipped and polls is not visited again",
	file: "script/record.lua",
	old:  "  if own then cursor = math.min(cursor, tonumber(own[1])) end\n",
	mut:  "",
	by:   []check{oracle, transcripts},
}, {
	name: "a step reads the whole queue",
	file: "script/record.lua",
	old:  "math.max(head + head_window, cursor) + cursor_window\n",
	mut:  "tail + 1\n",
	by:   []check{oracle, transcripts},
}, {
	name: "a walk leaves out the waiters near the head",
	file: "script/record.lua",
	old:  "    if place == head + head_window then place",
	mut:  "    if place == head + 1 then place",
	by:   []check{oracle, transcripts},
}, {
	name: "a walk that ends within the queue tells no waiter",
	file: "script/record.lua",
	old:  "  if unfinished and (mine or",
	mut:  "  if false and (mine or",
	by:   []check{oracle, transcripts},
}, {
	name: "a newcomer overtakes waiters that no step has visited",
	file: "script/record.lua",
	old:  "must_queue = blocked or unfinished or",
	mut:  "must_queue = blocked or",
	by:   []check{oracle, transcripts},
}, {
	name: "a waiter for more than a lowered limit keeps its position",
	file: "script/record.lua",
	old:  "return w[2] == 'p' and limit and",
	mut:  "return false and w[2] == 'p' and",
	by:   []check{oracle, transcripts},
}, {
	name: "a waiter that was told when to poll leaves, and no other is told",
	file: "script/record.lua",
	old:  "    till = missed_poll_at\n",
	mut:  "    till = 0\n",
	by:   []check{oracle, transcripts},
}, {
	name: "a reader re-enters only if its owner held before the step",
	file: "script/acquire.lua",
	old:  "  for field, value in pairs(fields) do\n    if ours",
	mut:  "  for field, value in pairs({}) do\n    if ours",
	by:   []check{transcripts},
}, {
	name: "a waiter that was told when to poll is relied on though it has left",
	file: "script/record.lua",
	old:  "  if tonumber(place) == poll_place then missed_poll_at, poll_at, poll_place = poll_at, 0, 0 end\n",
	mut:  "",
	by:   []check{oracle, transcripts},
}, {
	name: "a dead waiter that is not compatible keeps all others out",
	file: "script/record.lua",
	old:  "      blocked = attempt == caller or channel_of(attempt) ~= nil\n",
	mut:  "      blocked = true\n",
	by:   []check{oracle, transcripts},
}, {
	name: "a pushed grant has its whole lease at once",
	file: "script/record.lua",
	old:  "pushed and provisional_lease(ttl) or ttl\n",
	mut:  "ttl\n",
	by:   []check{oracle, transcripts},
}, {
	name: "a client that does not confirm is granted again and again",
	file: "script/record.lua",
	old:  "  silent = silent .. client\n",
	mut:  "  silent = silent .. ' -'\n",
	by:   []check{oracle, transcripts},
}, {
	name: "a renewal does not confirm a lease of the same length",
	file: "script/renew.lua",
	old:  "if now + ttl > expiry or string.find(lease, '^%-?0%d') then",
	mut:  "if now + ttl > expiry then",
	by:   []check{oracle, transcripts},
}, {
	name: "a grant is told before it is written",
	file: "script/record.lua",
	old:  "  write_fields()\n  publish()\n",
	mut:  "  publish()\n  write_fields()\n",
	by:   []check{transcripts},
}, {
	name: "a release pushes before it writes",
	file: "script/release.lua",
	old:  "          -- The TTL, the change, the tidying up, and then the pushes: see commit.\n",
	mut: "          redis.pcall(verb, channel, 'granted ' .. next_attempt .. ' ' .. token .. ' ' .. waiting)\n" +
		"          verb = 'ECHO'\n",
	by: []check{transcripts},
}, {
	name: "a step deletes fields before it writes",
	file: "script/record.lua",
	old:  "  if #set > 0 then call('HSET', key, unpack(set)) end\n",
	mut: "  if #gone > 0 then call('HDEL', key, unpack(gone)) end\n" +
		"  if #set > 0 then call('HSET', key, unpack(set)) end\n",
	by: []check{transcripts},
}, {
	name: "a new record is written although its TTL may not be set",
	file: "script/acquire.lua",
	old: "      local known = call('PEXPIRE', key, record_ttl)\n" +
		"      call('HSET', key, 'lock', hold, 'birth', token)\n",
	mut: "      local known = 0\n" +
		"      call('HSET', key, 'lock', hold, 'birth', token)\n",
	by: []check{transcripts},
}, {
	name: "a release is refused only in the middle",
	file: "script/release.lua",
	old:  "#!lua flags=allow-oom\n",
	mut:  "",
	by:   []check{transcripts},
}, {
	name: "release does not compare the holder",
	file: "script/release.lua",
	old:  "if lock and string.sub(lock, -#attempt - 1) == ' ' .. attempt and string.sub(lock, 17, 17) == ' ' then",
	mut:  "if lock and string.sub(lock, -1) ~= '+' and string.sub(lock, 17, 17) == ' ' then",
	by:   []check{oracle, transcripts},
}, {
	name: "release with a waiter does not compare the holder",
	file: "script/release.lua",
	old:  "elseif lock and string.sub(lock, -#attempt - 3) == ' ' .. attempt .. ' +' then",
	mut:  "elseif lock and string.sub(lock, -2) == ' +' then",
	by:   []check{oracle, transcripts},
}, {
	name: "renew does not compare the holder",
	file: "script/renew.lua",
	old:  "local mine = holder == attempt",
	mut:  "local mine = holder ~= '' and holder ~= '-'",
	by:   []check{oracle, transcripts},
}, {
	name: "renew revives an expired lease",
	file: "script/renew.lua",
	old:  "if mine and expiry > now then",
	mut:  "if mine then",
	by:   []check{oracle, transcripts},
}, {
	name: "renew revives an expired lease on the fast path",
	file: "script/renew.lua",
	old:  "  if expiry > now then\n    extend_record(key, common_life)",
	mut:  "  if expiry > 0 then\n    extend_record(key, common_life)",
	by:   []check{transcripts, oracle},
}, {
	name: "renew takes an attempt for a holder that ends like it",
	file: "script/renew.lua",
	old:  "tonumber(sub(lock, 17, from - 1))",
	mut:  "tonumber(string.match(sub(lock, 17, from - 1), '%d+'))",
	by:   []check{transcripts},
}, {
	name: "renew lets a record expire before the clock has passed its fence",
	file: "script/renew.lua",
	old:  "if fence and lease and fence <= micros then",
	mut:  "if fence and lease then",
	by:   []check{transcripts},
}, {
	name: "renew ignores the TTL that a lease has of its own",
	file: "script/renew.lua",
	old:  "tonumber(ttl) or common_ttl, owner",
	mut:  "common_ttl, owner",
	by:   []check{transcripts},
}, {
	name: "renew writes to a record of a later format",
	file: "script/renew.lua",
	old:  "first > 47 and first < 58 and second ~= 48",
	mut:  "second ~= 48",
	by:   []check{transcripts},
}, {
	name: "acquire leaves a key without TTL",
	file: "script/acquire.lua",
	old:  "      if known == 0 then call('PEXPIRE', key, record_ttl) end\n      return",
	mut:  "      return",
	by:   []check{oracle, transcripts},
}, {
	name: "tokens are counted and not drawn from the clock",
	file: "script/record.lua",
	old:  "fence = math.max(micros, (fence or 0) + 1)\n",
	mut:  "fence = (fence or 0) + 1\n",
	by:   []check{oracle, transcripts},
}, {
	name: "a token repeats when the clock is set back",
	file: "script/acquire.lua",
	old:  "elseif tonumber(token) > tonumber(last) then",
	mut:  "else",
	by:   []check{oracle, transcripts},
}, {
	name: "a reader on the fast path overtakes the queue",
	file: "script/acquire.lua",
	old:  "if weight > 0 and not got[3] and not got[4] and",
	mut:  "if weight > 0 and not got[4] and",
	by:   []check{oracle, transcripts},
}, {
	name: "a reader on the fast path is granted beside an expired hold",
	file: "script/acquire.lua",
	old:  "shared_mode == kind and soonest > tonumber(now)",
	mut:  "shared_mode == kind",
	by:   []check{oracle, transcripts},
}, {
	name: "one permit more than there are, on the fast path",
	file: "script/acquire.lua",
	old:  "used + weight <= tonumber(asked_limit)",
	mut:  "used + weight <= tonumber(asked_limit) + 1",
	by:   []check{oracle, transcripts},
}, {
	name: "the last reader on the fast path leaves the lock held",
	file: "script/release.lua",
	old:  "      if rest == 0 then\n",
	mut:  "      if rest < 0 then\n",
	by:   []check{oracle, transcripts},
}, {
	name: "the lock is handed to a waiter without a subscription",
	file: "script/record.lua",
	old:  "  if subscribers[channel] == 0 then return nil end\n",
	mut:  "",
	by:   []check{oracle, transcripts},
}, {
	name: "release hands the lock to a waiter without a subscription",
	file: "script/release.lua",
	old:  "if found and known and may and not there.err and there[2] > 0 then",
	mut:  "if found then",
	by:   []check{oracle, transcripts},
}, {
	name: "release grants to nobody",
	file: "script/release.lua",
	old:  "expire()\nserve_queue()\nreturn commit('released')",
	mut:  "expire()\nreturn commit('released')",
	by:   []check{oracle, transcripts},
}, {
	name: "cancel loses the grant that it crosses",
	file: "script/cancel.lua",
	old:  "elseif holds(attempt, owner) then",
	mut:  "elseif false then",
	by:   []check{oracle, transcripts},
}, {
	name: "poll does not find a grant whose push was lost",
	file: "script/poll.lua",
	old:  "local mine = reacquire(attempt, owner, ttl, waiter)",
	mut:  "local mine = nil",
	by:   []check{oracle, transcripts},
}, {
	name: "a waiter that is not compatible is overtaken",
	file: "script/record.lua",
	old:  "    return blocked or holder\n",
	mut:  "    return holder\n",
	by:   []check{oracle, transcripts},
}, {
	name: "one permit more than there are",
	file: "script/record.lua",
	old:  "used + weight <= limit",
	mut:  "used + weight <= limit + 1",
	by:   []check{oracle, transcripts},
}, {
	name: "an eviction does not raise the fence",
	file: "script/evict.lua",
	old:  "fence = math.max(micros, fence + 1)\n",
	mut:  "",
	by:   []check{oracle, transcripts},
}, {
	name: "a reader upgrades beside another",
	file: "script/convert.lua",
	old:  "if used > tonumber(reads[3]) then return busy() end",
	mut:  "",
	by:   []check{oracle, transcripts},
}}

// inMemstore are those of the specification, on which the simulation runs.
var inMemstore = []mutant{{
	name: "a waiter that was told that the lock is free sooner leaves, and no other is told",
	file: "memstore/queue.go",
	old:  "			t.queue.pollAt, t.queue.pollPlace = t.now+left, w.place\n",
	mut:  "",
	by:   []check{rules},
}, {
	name: "memstore: release does not compare the holder",
	file: "memstore/release.go",
	old:  "case t.holder != nil && t.holder.is(attempt, owner):",
	mut:  "case t.holder != nil:",
	by:   []check{worlds, oracle},
}, {
	name: "memstore: renew revives an expired lease",
	file: "memstore/renew.go",
	old:  "case expiry != nil && *expiry > t.now:",
	mut:  "case expiry != nil:",
	by:   []check{worlds, oracle},
}, {
	name: "memstore: a key without TTL",
	file: "memstore/record.go",
	old:  "t.expires = t.lifeEnd(r.ttl) // nothing but this lease needs the record",
	mut:  "t.expires = 0",
	by:   []check{worlds, oracle},
}, {
	name: "memstore: tokens are counted and not drawn from the clock",
	file: "memstore/record.go",
	old:  "return max(t.micros, t.fence+1)",
	mut:  "return t.fence + 1",
	by:   []check{worlds, oracle},
}, {
	name: "memstore: the lock is handed to a waiter without a subscription",
	file: "memstore/queue.go",
	old:  "		if !asks && !t.canReach(w) {\n			continue\n		}\n",
	mut:  "",
	by:   []check{oracle, worlds},
}, {
	name: "memstore: cancel loses the grant that it crosses",
	file: "memstore/cancel.go",
	old:  "case t.holder != nil && t.holder.is(attempt, owner):",
	mut:  "case t.holder != nil && owner != \"\" && t.holder.is(attempt, owner):",
	by:   []check{oracle, worlds},
}, {
	name: "memstore: a waiter that is not compatible is overtaken",
	file: "memstore/queue.go",
	old:  "			return w.place, token, true, pushed\n",
	mut:  "			blocked = true\n			continue\n",
	by:   []check{worlds, oracle},
}, {
	name: "memstore: readers are granted beside a writer",
	file: "memstore/record.go",
	old:  "	case t.holder != nil:\n		return false\n",
	mut:  "	case t.holder != nil:\n		return want == shared\n",
	by:   []check{worlds, oracle},
}}

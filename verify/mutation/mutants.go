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
	queuing    = check{"unit tests", ".", []string{"./internal/localqueue"}}
	waking     = check{"unit tests", ".", []string{"./internal/pushes"}}
	riding     = check{"unit tests", ".", []string{"./internal/batch"}}
	reading    = check{"unit tests", ".", []string{"./internal/wire"}}
	limiting   = check{"unit tests", ".", []string{"./internal/window"}}
	requesting = check{"unit tests", ".", []string{"./internal/request"}}
	// How things are named, and how refusals are told apart.
	naming   = check{"unit tests", ".", []string{"./internal/wire"}}
	refusing = check{"unit tests", ".", []string{"./internal/adapter"}}
	// The fake server by itself.
	faking = check{"unit tests", ".", []string{"./memstore"}}
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
	// What the tool says, and whether it waits for itself.
	wiring = check{"tool's scripts", "cmd/holdfast", []string{
		"-timeout=2m", "-run=TestScripts$/^(wire|every)$", ".",
	}}
	wording = check{"unit tests", "cmd/holdfast", []string{"-timeout=2m", "-run=TestAnErrorIs|TestAMessage", "."}}
)

// mutants are all that there are.
var mutants = slices.Concat(inScripts, inJumps, inMemstore, inClient, inConnections, inAdapters,
	inLease, inKinds, inWatching, inJobs, inListing, inQuorum, inGuardian, inState, inFlags, inWords, inDeadlocks,
	inGuards, inStringLocks, inIntegrations, inNeighbours, inBridge, inRedisson)

// inScripts are those of the scripts.
var inScripts = slices.Concat(in("script/record.lua", by{transcripts}, []mutant{{
	name: "a lease from before the clock was set back is kept for twice as long",
	old:  "life_ms = text(math.max(record_life, ahead) + retention)",
	mut:  "life_ms = text(record_life + ahead + retention)",
}, {
	name: "a grant is told before it is written",
	old:  "  write_fields()\n  publish()\n",
	mut:  "  publish()\n  write_fields()\n",
}, {
	name: "a step deletes fields before it writes",
	old:  "  if #set > 0 then call('HSET', key, unpack(set)) end\n",
	mut: "  if #gone > 0 then call('HDEL', key, unpack(gone)) end\n" +
		"  if #set > 0 then call('HSET', key, unpack(set)) end\n",
}, {
	name: "a hash of another program is taken for a lock",
	old:  "if not lock_field and call('PTTL', key) ~= -2 then",
	mut:  "if not lock_field and call('PTTL', key) == -3 then",
}, {
	name: "a sweep reads all holders in one step",
	old:  "#gone + kept >= sweep_window then break end",
	mut:  "false then break end",
}, {
	name: "a sweep begins again with each step",
	old:  "local whole, kept,",
	mut:  "sweep_cursor = '0'\n  local whole, kept,",
}, {
	name: "a sweep goes on at the cursor of another server",
	old:  "  if sweep_cursor ~= '0' and sweep_run ~= server_run() then sweep_cursor = '0' end\n",
	mut:  "",
}, {
	name: "while a sweep is under way nobody is asked to poll",
	old:  "(unfinished or (sweeping() and waiting > 0))",
	mut:  "unfinished",
}, {
	name: "a hold that no sweep has reached is believed",
	old:  "if not h or h[2] > now then return h end",
	mut:  "if true then return h end",
}, {
	name: "a sweep forgets what was granted since it began",
	old:  "  found = math.min(found or till, till)\nend\n",
	mut:  "end\n",
}}), in("script/record.lua", by{oracle, transcripts}, []mutant{{
	name: "a waiter that was skipped and polls is not visited again",
	old:  "  if own then cursor = math.min(cursor, tonumber(own[1])) end\n",
	mut:  "",
}, {
	name: "a step reads the whole queue",
	old:  "math.max(head + head_window, cursor) + cursor_window\n",
	mut:  "tail + 1\n",
}, {
	name: "a walk leaves out the waiters near the head",
	old:  "    if place == head + head_window then place",
	mut:  "    if place == head + 1 then place",
}, {
	name: "a walk that ends within the queue tells no waiter",
	old:  "  if (unfinished or (sweeping() and waiting > 0)) and (mine or",
	mut:  "  if false and (mine or",
}, {
	name: "a newcomer overtakes waiters that no step has visited",
	old:  "must_queue = blocked or unfinished or",
	mut:  "must_queue = blocked or",
}, {
	name: "a waiter for more than a lowered limit keeps its position",
	old:  "return w[2] == 'p' and limit and",
	mut:  "return false and w[2] == 'p' and",
}, {
	name: "a waiter that was told when to poll leaves, and no other is told",
	old:  "    till = missed_poll_at\n",
	mut:  "    till = 0\n",
}, {
	name: "a waiter that was told when to poll is relied on though it has left",
	old:  "  if tonumber(place) == poll_place then missed_poll_at, poll_at, poll_place = poll_at, 0, 0 end\n",
	mut:  "",
}, {
	name: "a dead waiter that is not compatible keeps all others out",
	old:  "      blocked = attempt == caller or channel_of(attempt) ~= nil\n",
	mut:  "      blocked = true\n",
}, {
	name: "a pushed grant has its whole lease at once",
	old:  "pushed and provisional_lease(ttl) or ttl\n",
	mut:  "ttl\n",
}, {
	name: "a client that does not confirm is granted again and again",
	old:  "  silent = silent .. client\n",
	mut:  "  silent = silent .. ' -'\n",
}, {
	name: "tokens are counted and not drawn from the clock",
	old:  "fence = math.max(micros, (fence or 0) + 1)\n",
	mut:  "fence = (fence or 0) + 1\n",
}, {
	name: "the lock is handed to a waiter without a subscription",
	old:  "  if subscribers[channel] == 0 then return nil end\n",
	mut:  "",
}, {
	name: "a waiter that is not compatible is overtaken",
	old:  "    return blocked or holder\n",
	mut:  "    return holder\n",
}, {
	name: "a number of permits is written as Lua writes it",
	old:  "' ' .. text(weight) .. ' '",
	mut:  "' ' .. weight .. ' '",
}, {
	name: "one permit more than there are",
	old:  "used + weight <= limit",
	mut:  "used + weight <= limit + 1",
}}), in("script/evict.lua", by{oracle, transcripts}, []mutant{{
	name: "an evicted holder is not pushed",
	old:  "for _, attempt in ipairs(names) do send(attempt, 'evicted ' .. attempt) end\n",
	mut:  "",
}, {
	name: "an eviction does not raise the fence",
	old:  "fence = math.max(micros, fence + 1)\n",
	mut:  "",
}, {
	name: "an eviction names all holders, however many",
	old:  "math.min(#names, 256)",
	mut:  "#names",
}}), in("script/acquire.lua", by{transcripts}, []mutant{{
	name: "a reader re-enters only if its owner held before the step",
	old:  "  for field, value in pairs(fields) do\n    if ours",
	mut:  "  for field, value in pairs({}) do\n    if ours",
}, {
	name: "a new record is written although its TTL may not be set",
	old: "      local known = call('PEXPIRE', key, record_ttl)\n" +
		"      call('HSET', key, 'lock', hold, 'birth', token)\n",
	mut: "      local known = 0\n" +
		"      call('HSET', key, 'lock', hold, 'birth', token)\n",
}}), in("script/acquire.lua", by{oracle, transcripts}, []mutant{{
	name: "acquire leaves a key without TTL",
	old:  "      if known == 0 then call('PEXPIRE', key, record_ttl) end\n      return",
	mut:  "      return",
}, {
	name: "a token repeats when the clock is set back",
	old:  "elseif tonumber(token) > tonumber(last) then",
	mut:  "else",
}, {
	name: "a reader on the fast path overtakes the queue",
	old:  "if weight > 0 and not got[3] and not got[4] and",
	mut:  "if weight > 0 and not got[4] and",
}, {
	name: "a reader on the fast path is granted beside an expired hold",
	old:  "shared_mode == kind and soonest > tonumber(now)",
	mut:  "shared_mode == kind",
}, {
	name: "one permit more than there are, on the fast path",
	old:  "used + weight <= tonumber(asked_limit)",
	mut:  "used + weight <= tonumber(asked_limit) + 1",
}}), in("script/renew.lua", by{oracle, transcripts}, []mutant{{
	name: "a renewal does not confirm a lease of the same length",
	old:  "if now + ttl > expiry or string.find(lease, '^%-?0%d') then",
	mut:  "if now + ttl > expiry then",
}, {
	name: "renew does not compare the holder",
	old:  "local mine = holder == attempt",
	mut:  "local mine = holder ~= '' and holder ~= '-'",
}, {
	name: "renew revives an expired lease",
	old:  "if mine and expiry > now then",
	mut:  "if mine then",
}}), in("script/renew.lua", by{transcripts, oracle}, []mutant{{
	name: "renew revives an expired lease on the fast path",
	old:  "  if expiry > now then\n    extend_record(key, common_life)",
	mut:  "  if expiry > 0 then\n    extend_record(key, common_life)",
}}), in("script/renew.lua", by{transcripts}, []mutant{{
	name: "renew takes an attempt for a holder that ends like it",
	old:  "tonumber(sub(lock, 17, from - 1))",
	mut:  "tonumber(string.match(sub(lock, 17, from - 1), '%d+'))",
}, {
	name: "renew lets a record expire before the clock has passed its fence",
	old:  "if fence and lease and fence <= micros then",
	mut:  "if fence and lease then",
}, {
	name: "renew ignores the TTL that a lease has of its own",
	old:  "tonumber(ttl) or common_ttl, owner",
	mut:  "common_ttl, owner",
}, {
	name: "renew writes to a record of a later format",
	old:  "first > 47 and first < 58 and second ~= 48",
	mut:  "second ~= 48",
}}), in("script/release.lua", by{transcripts}, []mutant{{
	name: "a release pushes before it writes",
	old:  "          -- The TTL, the change, the tidying up, and then the pushes: see commit.\n",
	mut: "          redis.pcall(verb, channel, 'granted ' .. next_attempt .. ' ' .. token .. ' ' .. waiting)\n" +
		"          verb = 'ECHO'\n",
}, {
	name: "a release is refused only in the middle",
	old:  "#!lua flags=allow-oom\n",
	mut:  "",
}}), in("script/release.lua", by{oracle, transcripts}, []mutant{{
	name: "release does not compare the holder",
	old:  "if lock and string.sub(lock, -#attempt - 1) == ' ' .. attempt and string.sub(lock, 17, 17) == ' ' then",
	mut:  "if lock and string.sub(lock, -1) ~= '+' and string.sub(lock, 17, 17) == ' ' then",
}, {
	name: "release with a waiter does not compare the holder",
	old:  "elseif lock and string.sub(lock, -#attempt - 3) == ' ' .. attempt .. ' +' then",
	mut:  "elseif lock and string.sub(lock, -2) == ' +' then",
}, {
	name: "the last reader on the fast path leaves the lock held",
	old:  "      if rest == 0 then\n",
	mut:  "      if rest < 0 then\n",
}, {
	name: "release hands the lock to a waiter without a subscription",
	old:  "if found and known and may and not there.err and there[2] > 0 then",
	mut:  "if found then",
}, {
	name: "release grants to nobody",
	old:  "expire()\nserve_queue()\nreturn commit('released')",
	mut:  "expire()\nreturn commit('released')",
}}), in("script/cancel.lua", by{oracle, transcripts}, []mutant{{
	name: "cancel loses the grant that it crosses",
	old:  "elseif holds(attempt, owner) then",
	mut:  "elseif false then",
}}), in("script/poll.lua", by{oracle, transcripts}, []mutant{{
	name: "poll does not find a grant whose push was lost",
	old:  "local mine = reacquire(attempt, owner, ttl, waiter)",
	mut:  "local mine = nil",
}}), in("script/convert.lua", by{oracle, transcripts}, []mutant{{
	name: "a reader upgrades beside another",
	old:  "if used > tonumber(reads[3]) then return busy() end",
	mut:  "",
}}))

// inMemstore are those of the specification, on which the simulation runs.
var inMemstore = slices.Concat(in("memstore/queue.go", by{rules}, []mutant{{
	name: "a waiter that was told that the lock is free sooner leaves, and no other is told",
	old:  "			st.queue.pollAt, st.queue.pollPlace = st.now+left, w.place\n",
	mut:  "",
}}), in("memstore/queue.go", by{oracle, worlds}, []mutant{{
	name: "memstore: the lock is handed to a waiter without a subscription",
	old:  "		if !asks && !st.canReach(w) {\n			continue\n		}\n",
	mut:  "",
}}), in("memstore/queue.go", by{worlds, oracle}, []mutant{{
	name: "memstore: a waiter that is not compatible is overtaken",
	old:  "			return w.place, token, true, pushed\n",
	mut:  "			blocked = true\n			continue\n",
}}), in("memstore/release.go", by{worlds, oracle}, []mutant{{
	name: "memstore: release does not compare the holder",
	old:  "case st.holder != nil && st.holder.is(attempt, owner):",
	mut:  "case st.holder != nil:",
}}), in("memstore/renew.go", by{worlds, oracle}, []mutant{{
	name: "memstore: renew revives an expired lease",
	old:  "case expiry != nil && *expiry > st.now:",
	mut:  "case expiry != nil:",
}}), in("memstore/record.go", by{worlds, oracle}, []mutant{{
	name: "memstore: a key without TTL",
	old:  "st.expires = st.lifeEnd(r.ttl) // nothing but this lease needs the record",
	mut:  "st.expires = 0",
}, {
	name: "memstore: tokens are counted and not drawn from the clock",
	old:  "return max(st.micros, st.fence+1)",
	mut:  "return st.fence + 1",
}, {
	name: "memstore: readers are granted beside a writer",
	old:  "	case st.holder != nil:\n		return false\n",
	mut:  "	case st.holder != nil:\n		return want == shared\n",
}}), in("memstore/record.go", by{faking}, []mutant{{
	name: "memstore: a hold that no sweep has reached is believed",
	old:  "if h == nil || h.expiry > st.now {\n		return h\n	}\n	st.noteLost",
	mut:  "if h == nil || h.expiry > 0 {\n		return h\n	}\n	st.noteLost",
}, {
	name: "memstore: a sweep forgets what was shortened since it began",
	old:  "st.soonest, st.sweep.found = earlier(st.soonest, at), earlier(st.sweep.found, at)",
	mut:  "st.soonest = earlier(st.soonest, at)",
}}), in("memstore/cancel.go", by{oracle, worlds}, []mutant{{
	name: "memstore: cancel loses the grant that it crosses",
	old:  "case st.holder != nil && st.holder.is(attempt, owner):",
	mut:  "case st.holder != nil && owner != \"\" && st.holder.is(attempt, owner):",
}}))

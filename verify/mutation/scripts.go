package main

import "slices"

// inScripts are those of the steps that the server runs.
var inScripts = slices.Concat(in("script/begin_run.lua", transcripts, []mutant{{
	name: "another period of a job is put into its mark",
	by:   "TestHeaderDeclaresTheAnswers",
	old:  "  if first ~= 'change' then return commit('other ' .. agreed) end\n",
	mut:  "",
}, {
	name: "a fixed time comes twice after a clock was set back",
	by:   "TestTranscriptsOnServer",
	old:  "  latest = upcoming + period\n",
	mut:  "",
}, {
	name: "a run does not mark its period",
	by:   "TestEveryPrefixOfAScriptIsSafe",
	old:  "fields.period = text(upcoming) .. ' ' .. attempt .. ' ' .. plan\n",
	mut:  "",
}}), in("script/cancel_run.lua", transcripts, []mutant{{
	name: "a cancelled run deletes the period of the job",
	by:   "TestTranscriptsOnServer",
	old:  "  fields.period = text(now) .. ' - ' .. mark[3] .. ' ' .. mark[4]\n",
	mut:  "  fields.period = text(now) .. ' - 1 -'\n",
}}), in("script/release.lua", transcripts, []mutant{{
	name: "a token repeats when the only waiter is granted the lock after the clock was set back",
	by:   "TestTranscriptsOnServer",
	old:  "#lease <= 14 and till - now > 0 and token - fence > 0 then",
	mut:  "#lease <= 14 and till - now > 0 then",
}}), in("script/record.lua", transcripts, []mutant{{
	name: "a second waiter drives out the only one",
	by:   "TestTranscriptsOnServer",
	old:  "  fields.queue, fields['#1'], fields['w:' .. alone] = got[7], alone, alone_waiter\n",
	mut:  "  waiting, head, tail = 0, 1, 0\n",
}, {
	name: "a step writes the rest of a deleted record",
	by:   "TestAClockThatJumpsWithinAStepLeavesWholeRecords",
	old:  "if not set_record_ttl() then return step() end",
	mut:  "set_record_ttl()",
}, {
	name: "who is not silent any more is passed over until it polls",
	by:   "TestWhoWasSilentHasItsTurnAgain",
	old:  " .. string.sub(silent, to + 1), 0\n",
	mut:  " .. string.sub(silent, to + 1), cursor\n",
}, {
	name: "a grant is told before it is written",
	by:   "TestEveryPrefixOfAScriptIsSafe",
	old:  "  write_fields()\n  publish()\n",
	mut:  "  publish()\n  write_fields()\n",
}, {
	name: "a step deletes fields before it writes",
	by:   "TestEveryPrefixOfAScriptIsSafe",
	old:  "  if #set > 0 then call('HSET', key, unpack(set)) end\n",
	mut: "  if #gone > 0 then call('HDEL', key, unpack(gone)) end\n" +
		"  if #set > 0 then call('HSET', key, unpack(set)) end\n",
}, {
	name: "a hash of another program is taken for a lock",
	by:   "TestAHashThatIsNoLockIsLeftAsItIs",
	old:  "if not lock_field and call('PTTL', key) ~= -2 then",
	mut:  "if not lock_field and call('PTTL', key) == -3 then",
}, {
	name: "while a sweep is under way nobody is asked to poll",
	by:   "TestAWriterPassesTenThousandExpiredReaders",
	old:  "(unfinished or (sweeping() and waiting > 0))",
	mut:  "unfinished",
}, {
	name: "a hold that no sweep has reached is believed",
	by:   "TestAHoldThatNoSweepHasReachedIsOver",
	old:  "if not h or h[2] > now then return h end",
	mut:  "if true then return h end",
}, {
	name: "a sweep forgets what was granted since it began",
	by:   "TestASweepDoesNotForgetNewHolds",
	old:  "  found = math.min(found or till, till)\nend\n",
	mut:  "end\n",
}, {
	name: "a waiter that was told when to poll leaves, and no other is told",
	by:   "TestTranscriptsOnServer",
	old:  "    till = missed_poll_at\n",
	mut:  "    till = 0\n",
}, {
	name: "a last waiter that may be frozen is the only one that is told when to poll",
	by:   "TestTranscriptsOnServer",
	old:  "      for place = reached, stop do tell(place) end\n",
	mut:  "",
}, {
	name: "a watcher is told of a lock that a waiter has got",
	by:   "TestTranscriptsOnServer",
	old:  "  elseif released and not holder and (waiting == 0 or not must_queue) then\n",
	mut:  "  elseif released then\n",
}, {
	name: "a walk that ends within the queue tells no waiter",
	by:   "TestAWalkThatEndsWithinTheQueueTellsAWaiter",
	old:  "  if (unfinished or (sweeping() and waiting > 0)) and (mine or",
	mut:  "  if false and (mine or",
}, {
	name: "a reader that is to end is prolonged by a copy of its request",
	by:   "TestTranscriptsOnServer",
	old:  "if not h or h.mark == '00' then return nil end",
	mut:  "if not h then return nil end",
}, {
	name: "after a grant that nobody confirmed the next is pushed at once",
	by:   "TestTranscriptsOnServer",
	old:  "  local asks = doubt and asked_until <= now\n",
	mut:  "  local asks = false\n",
}, {
	name: "a waiter that answers first overtakes those that may still answer",
	by:   "TestTranscriptsOnServer",
	old:  "    elseif attempt ~= caller and unanswered(place) then\n      blocked = channel_of(attempt) ~= nil\n",
	mut:  "    elseif attempt ~= caller and unanswered(place) then\n      blocked = false\n",
}, {
	name: "a waiter that answers too late is passed over for ever",
	by:   "TestTranscriptsOnServer",
	old:  "    note_answer(tonumber(own[1]))\n",
	mut:  "",
}, {
	name: "a waiter that was asked and did not answer is granted the lock all the same",
	by:   "TestTranscriptsOnServer",
	old:  "local function passed_over(place) return asked_until <= now and unanswered(place) end\n",
	mut:  "local function passed_over(place) return false end\n",
}, {
	name: "an answer does not say until when the others may answer",
	by:   "TestTranscriptsOnServer",
	old:  "  if not holder and asked_until > now then till = math.min(till, asked_until) end\n",
	mut:  "  if true then till = holder and expiry or (used > 0 and soonest) or now end\n",
}}), in("script/record.lua", oracle, []mutant{{
	name: "a waiter that was skipped and polls is not visited again",
	by:   "TestLongLines",
	old:  "    cursor = math.min(cursor, tonumber(own[1]))\n",
	mut:  "",
}, {
	name: "a waiter that was told when to poll is relied on though it has left",
	by:   "TestProtocol",
	old:  "  if tonumber(place) == poll_place then missed_poll_at, poll_at, poll_place = poll_at, 0, 0 end\n",
	mut:  "",
}, {
	name: "a dead waiter that is not compatible keeps all others out",
	by:   "TestProtocol",
	old:  "      blocked = attempt == caller or channel_of(attempt) ~= nil\n",
	mut:  "      blocked = true\n",
}, {
	name: "a pushed grant has its whole lease at once",
	by:   "TestProtocol",
	old:  "pushed and provisional_lease(ttl) or ttl\n",
	mut:  "ttl\n",
}, {
	name: "tokens are counted and not drawn from the clock",
	by:   "TestProtocol",
	old:  "fence = math.max(micros, (fence or 0) + 1)\n",
	mut:  "fence = (fence or 0) + 1\n",
}, {
	name: "the lock is handed to a waiter without a subscription",
	by:   "TestProtocol",
	old:  "  if subscribers[channel] == 0 then return nil end\n",
	mut:  "",
}, {
	name: "a waiter that is not compatible is overtaken",
	by:   "TestProtocol",
	old:  "    return blocked or holder\n",
	mut:  "    return holder\n",
}, {
	name: "one permit more than there are",
	by:   "TestProtocol",
	old:  "used + weight <= limit",
	mut:  "used + weight <= limit + 1",
}}), in("script/acquire.lua", transcripts, []mutant{{
	name: "a hold is written alone where its record was deleted",
	by:   "TestAClockThatJumpsWithinAStepLeavesWholeRecords",
	old:  "if call('HSET', key, 'lock', hold) == 0 then return",
	mut:  "if call('HSET', key, 'lock', hold) then return",
}}), in("script/acquire.lua", oracle, []mutant{{
	name: "acquire leaves a key without TTL",
	by:   "TestProtocol",
	old:  "      if known == 0 then call('PEXPIRE', key, record_ttl) end\n      return",
	mut:  "      return",
}, {
	name: "a token repeats when the clock is set back",
	by:   "TestProtocol",
	old:  "elseif tonumber(token) > tonumber(last) then",
	mut:  "else",
}, {
	name: "a reader on the fast path overtakes the queue",
	by:   "TestProtocol",
	old:  "if weight > 0 and not got[3] and not got[4] and",
	mut:  "if weight > 0 and not got[4] and",
}, {
	name: "a reader on the fast path is granted beside an expired hold",
	by:   "TestProtocol",
	old:  "shared_mode == kind and soonest > tonumber(now)",
	mut:  "shared_mode == kind",
}, {
	name: "one permit more than there are, on the fast path",
	by:   "TestProtocol",
	old:  "used + weight <= tonumber(asked_limit)",
	mut:  "used + weight <= tonumber(asked_limit) + 1",
}}), in("script/renew.lua", transcripts, []mutant{{
	name: "a hold that is to end is renewed",
	by:   "TestTranscriptsOnServer",
	old:  "  if ending then return 'evicted' end\n",
	mut:  "",
}, {
	name: "a share of a deleted record is renewed",
	by:   "TestAClockThatJumpsWithinAStepLeavesWholeRecords",
	old:  "if vanished(key, 'h:' .. attempt, mode .. ' ' .. till .. ' ' .. rest) then return '-' end",
	mut:  "call('HSET', key, 'h:' .. attempt, mode .. ' ' .. till .. ' ' .. rest)",
}, {
	name: "who renews is not silent any more, and is passed over until it polls",
	by:   "TestWhoWasSilentHasItsTurnAgain",
	old:  "string.sub(queue, to), ' >%d+', '')",
	mut:  "string.sub(queue, to), ' >%d+', '%0')",
}, {
	name: "renew takes an attempt for a holder that ends like it",
	by:   "TestTranscriptsOnServer",
	old:  "  local mine = holder == attempt\n",
	mut:  "  local mine = string.sub(holder, -#attempt) == attempt\n",
}, {
	name: "renew lets a record expire before the clock has passed its fence",
	by:   "TestTranscriptsOnServer",
	old:  "  if fence and fence <= micros then\n",
	mut:  "  if fence then\n",
}, {
	name: "a renewal loses the only waiter",
	by:   "TestTranscriptsOnServer",
	old:  "math.floor(fence / 1000)) .. ' ' .. holder .. more\n",
	mut:  "math.floor(fence / 1000)) .. ' ' .. holder .. (alone and '' or more)\n",
}, {
	name: "renew writes to a record of a later format",
	by:   "FuzzRecordsOfLaterFormats",
	old:  "match(lock, '^([1-8]%d+) (0?)([1-9]%d*) ()')",
	mut:  "match(lock, '^(.%d+) (0?)([1-9]%d*) ()')",
}, {
	name: "renew writes to a record that no version wrote",
	by:   "FuzzPoisonedRecords",
	old:  "  if not (word and lease) or #word > 16 or #lease > 17 or tonumber(word) >= 9e15 or more == ' ' or\n",
	mut:  "  if not (word and lease) or\n",
}}), in("script/renew.lua", oracle, []mutant{{
	name: "renew revives an expired lease on the fast path",
	by:   "TestProtocol",
	old:  "  if expiry > now then\n    extend_record(key, common_life, ",
	mut:  "  if expiry > 0 then\n    extend_record(key, common_life, ",
}, {
	name: "a renewal does not confirm a lease of the same length",
	by:   "TestProtocol",
	old:  "if now + ttl > expiry or unconfirmed then",
	mut:  "if now + ttl > expiry then",
}, {
	name: "renew does not compare the holder",
	by:   "TestProtocol",
	old:  "local mine = holder == attempt",
	mut:  "local mine = holder ~= '' and holder ~= '-'",
}, {
	name: "renew revives an expired lease",
	by:   "TestProtocol",
	old:  "if mine and expiry > now then",
	mut:  "if mine then",
}}), in("script/release.lua", transcripts, []mutant{{
	name: "a waiter of a deleted record is granted the lock",
	by:   "TestAClockThatJumpsWithinAStepLeavesWholeRecords",
	old:  "if new == 0 then",
	mut:  "if new then",
}, {
	name: "a release pushes before it writes",
	by:   "TestEveryPrefixOfAScriptIsSafe",
	old:  "          -- The TTL, the change, the tidying up, and then the pushes: see commit.\n",
	mut: "          redis.pcall(verb, channel, 'granted ' .. next_attempt .. ' ' .. token .. ' ' .. waiting)\n" +
		"          verb = 'ECHO'\n",
}, {
	name: "a record ends before the lease of a grant that the only waiter got",
	by:   "TestTranscriptsOnServer",
	old:  "        if now + lease - till > 0 then call(",
	mut:  "        if false then call(",
}, {
	name: "a release is refused only in the middle",
	by:   "TestServerOutOfMemory",
	old:  "#!lua flags=allow-oom\n",
	mut:  "",
}}), in("script/release.lua", oracle, []mutant{{
	name: "release does not compare the holder",
	by:   "TestProtocol",
	old:  "if lock and string.sub(lock, rest) == attempt then",
	mut:  "if lock and string.sub(lock, -1) ~= '+' then",
}, {
	name: "release with a waiter does not compare the holder",
	by:   "TestProtocol",
	old:  "elseif lock and string.sub(lock, rest) == attempt .. ' +' then",
	mut:  "elseif lock and string.sub(lock, -2) == ' +' then",
}, {
	name: "the last reader on the fast path leaves the lock held",
	by:   "TestProtocol",
	old:  "      if rest == 0 then\n",
	mut:  "      if rest < 0 then\n",
}, {
	name: "release hands the lock to a waiter without a subscription",
	by:   "TestProtocol",
	old:  "  return known and may and not there.err and there[2] > 0\n",
	mut:  "  return true\n",
}, {
	name: "release grants to nobody",
	by:   "TestProtocol",
	old:  "expire()\nserve_queue()\nreturn commit('released')",
	mut:  "expire()\nreturn commit('released')",
}}), in("script/proclaim.lua", transcripts, []mutant{{
	name: "a late proclamation undoes a later one",
	by:   "TestHeaderDeclaresTheAnswers",
	old:  "if said and said[1] == token and tonumber(said[2]) > tonumber(number) then return 'late' end\n",
	mut:  "",
}}), in("script/read_leader.lua", transcripts, []mutant{{
	name: "a new leader is seen with the value of the one before",
	by:   "TestTranscriptsOnServer",
	old:  "if said and said[3] and said[1] == text(fence) then\n",
	mut:  "if said and said[3] then\n",
}}), in("script/check.lua", transcripts, []mutant{{
	name: "a lease that is over is checked as live",
	by:   "TestTranscriptsOnServer",
	old:  "    if holder and expiry > now then\n",
	mut:  "    if holder then\n",
}, {
	name: "a lease that may have been handed over is checked as live",
	by:   "TestTranscriptsOnServer",
	old:  "and 'live' or 'unknown'",
	mut:  "and 'live' or 'live'",
}, {
	name: "each check of a step reads pages of its own",
	by:   "TestAStepOfManyChecksReadsNoMorePagesThanOne",
	old:  "    shares_of[key], pages = shares, pages or sweep_pages\n",
	mut:  "    shares_of[key], pages = shares, sweep_pages\n",
}}), in("script/release_after.lua", transcripts, []mutant{{
	name: "a kept lock is free when it is released",
	by:   "TestServerOutOfMemory",
	old:  "  if till > now and (not entries",
	mut:  "  if till > now + 1000000 and (not entries",
}}), in("script/acquire_all.lua", transcripts, []mutant{{
	name: "of several locks those before the held one remain acquired",
	by:   "TestTranscriptsOnServer",
	old:  "    for _, other in ipairs(locks) do other.drop() end\n",
	mut:  "",
}}), in("script/set_limit.lua", transcripts, []mutant{{
	name: "a higher limit lets nobody in",
	by:   "TestTranscriptsOnServer",
	old:  "fields.limit = text(limit)\nserve_queue()\n",
	mut:  "fields.limit = text(limit)\n",
}}), in("script/acquire_free.lua", transcripts, []mutant{{
	name: "a batch takes a lock that is held",
	by:   "TestTranscriptsOnServer",
	old:  "elseif #last == 16 and find(last, '^[1-9]%d+$') and fence > tonumber(last) then",
	mut:  "elseif #last >= 16 and find(last, '^[1-9]%d+') and fence > tonumber(string.sub(last, 1, 16)) then",
}}), in("script/release_idle.lua", transcripts, []mutant{{
	name: "a batch releases another's lock",
	by:   "TestTranscriptsOnServer",
	old:  " and sub(lock, from) == ARGV[i] then\n",
	mut:  " then\n",
}}), in("script/register_client.lua", transcripts, []mutant{{
	name: "a client's record has no TTL",
	by:   "TestATTLThatHasPassedLeavesNoKey",
	old:  "unpack(fields))\nredis.call('PEXPIRE', key, life)\n",
	mut:  "unpack(fields))\n",
}}), in("script/evict.lua", transcripts, []mutant{{
	name: "a copy of an eviction by force removes the record that came after it",
	by:   "TestTranscriptsOnServer",
	old:  "  if request and before == request .. ' 1' then return 'evicted 1' end\n",
	mut:  "",
}, {
	name: "an eviction by force removes a record that came after the one that was seen",
	by:   "TestTranscriptsOnServer",
	old:  "  if upto and fence > upto then return",
	mut:  "  if upto and fence < 0 then return",
}, {
	name: "an eviction by force forgets a fence that is ahead of the clock",
	by:   "TestTranscriptsOnServer",
	old:  "  fence = math.max(micros, fence + 1)\n  local life",
	mut:  "  fence = micros\n  local life",
}, {
	name: "an eviction by an old token takes the permits of others",
	by:   "TestTranscriptsOnServer",
	old:  "tonumber(token) <= upto and (only == '0' or token == only) end",
	mut:  "tonumber(token) <= upto end",
}, {
	name: "a late eviction ends a hold that was granted after it",
	by:   "TestALateCopyOfAScriptDoesNoHarmOnServer",
	old:  "return tonumber(token) <= upto and (",
	mut:  "return (",
}, {
	name: "an eviction that is sent twice ends the next holder, too",
	by:   "TestARepeatedScriptIsAnsweredAsOnceOnServer",
	old:  "if last and evicted_by == request then return 'evicted ' .. count end\n",
	mut:  "",
}, {
	name: "a holder that is asked to end has ended",
	by:   "TestTranscriptsOnServer",
	old:  "if how == 'ask' and holder ~= '%kept' then",
	mut:  "if false then",
}}), in("script/evict.lua", oracle, []mutant{{
	name: "an evicted holder is not pushed",
	by:   "TestProtocol",
	old:  "for _, attempt in ipairs(names) do send(attempt, 'evicted ' .. attempt) end\n",
	mut:  "",
}, {
	name: "an eviction does not raise the fence",
	by:   "TestProtocol",
	old:  "if #over > 0 then fence = math.max(micros, fence + 1) end\n",
	mut:  "",
}}), in("script/lessen.lua", oracle, []mutant{{
	name: "permits are released twice by a request that comes twice",
	by:   "TestProtocol",
	old:  "keeps = math.min(keeps, permits)",
	mut:  "keeps = math.max(keeps - permits, 1)",
}, {
	name: "the sooner end of a share is not noticed",
	by:   "TestLongLines",
	old:  "  note_expiry(till)\n",
	mut:  "",
}}), in("script/lessen.lua", transcripts, []mutant{{
	name: "permits that come back are granted to nobody",
	by:   "TestTranscriptsOnServer",
	old:  "serve_queue()\nif earlier",
	mut:  "if earlier",
}}), in("script/resume.lua", oracle, []mutant{{
	name: "a leader is resumed by whoever names it, under any token",
	by:   "TestLongLines",
	old:  "(holds(former) and text(fence) == token)",
	mut:  "holds(former)",
}}), in("script/cancel.lua", oracle, []mutant{{
	name: "cancel loses the grant that it crosses",
	by:   "TestProtocol",
	old:  "elseif holds(attempt, owner) then",
	mut:  "elseif false then",
}}), in("script/poll.lua", oracle, []mutant{{
	name: "poll does not find a grant whose push was lost",
	by:   "TestProtocol",
	old:  "local mine = reacquire(attempt, owner, ttl, waiter)",
	mut:  "local mine = nil",
}}), in("script/convert.lua", oracle, []mutant{{
	name: "a reader upgrades beside another",
	by:   "TestProtocol",
	old:  "if used > tonumber(reads[3]) then return busy() end",
	mut:  "",
}}))

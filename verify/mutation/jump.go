package main

import "slices"

// jumping is the test in which the server's clock jumps within a step.
var jumping = check{"transcripts", ".", []string{"-run=Jump", "./script"}}

// inJumps are those of what the scripts do when PEXPIRE has deleted a record.
var inJumps = slices.Concat(in("script/record.lua", by{jumping}, []mutant{{
	name: "a step writes the rest of a deleted record",
	old:  "if not set_record_ttl() then return step() end",
	mut:  "set_record_ttl()",
}}), in("script/acquire_all.lua", by{jumping}, []mutant{{
	name: "a step on several locks writes the rest of a deleted record",
	old:  "if not lock.set_record_ttl() then return step() end",
	mut:  "lock.set_record_ttl()",
}}), in("script/acquire.lua", by{jumping}, []mutant{{
	name: "a hold is written alone where its record was deleted",
	old:  "if call('HSET', key, 'lock', hold) == 0 then return",
	mut:  "if call('HSET', key, 'lock', hold) then return",
}, {
	name: "a share is written beside the sum of a deleted record",
	old:  "'shares', sum) < 3",
	mut:  "'shares', sum) < 4",
}}), in("script/acquire_free.lua", by{jumping}, []mutant{{
	name: "several holds are written alone where their records were deleted",
	old:  "    if done == 1 then call('HDEL', key, 'lock') end\n",
	mut:  "",
}}), in("script/renew.lua", by{jumping}, []mutant{{
	name: "a lease of a deleted record is renewed, on the fast path",
	old:  "if now + common_ttl > expiry and\n      vanished(",
	mut:  "if now + common_ttl > expiry and not\n      call('HSET', ",
}, {
	name: "a lease of a deleted record is renewed",
	old:  "if vanished(key, 'lock', form) then return '-' end",
	mut:  "call('HSET', key, 'lock', form)",
}, {
	name: "a share of a deleted record is renewed",
	old:  "if vanished(key, 'h:' .. attempt, mode .. ' ' .. till .. ' ' .. rest) then return '-' end",
	mut:  "call('HSET', key, 'h:' .. attempt, mode .. ' ' .. till .. ' ' .. rest)",
}}), in("script/release.lua", by{jumping}, []mutant{{
	name: "a waiter of a deleted record is granted the lock",
	old:  "if new == 0 then",
	mut:  "if new then",
}}), in("script/mark_server.lua", by{jumping}, []mutant{{
	name: "a mark that was deleted is written without a TTL",
	old:  "  redis.call('PEXPIRE', key, ttl)\nend",
	mut:  "end",
}}))

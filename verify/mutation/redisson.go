package main

import "slices"

// Redisson's locks, on a real server.
var likeRedisson = check{"server tests", "compat/redisson", []string{"-run=^Test", "-timeout=100s", "."}}

// inRedisson are those of Redisson's locks.
var inRedisson = slices.Concat(in("compat/redisson/call.go", by{likeRedisson}, []mutant{{
	name: "redisson: a late request takes a lock that its attempt has released",
	old:  "if redis.call('EXISTS', KEYS[#KEYS]) == 1 then return 'gone' end\n",
	mut:  "",
}, {
	name: "redisson: a release that is repeated says that the lock was lost",
	old:  "  if redis.call('EXISTS', latch) == 1 then return 'released' end\n",
	mut:  "",
}}), in("compat/redisson/lock.go", by{likeRedisson}, []mutant{{
	name: "redisson: a release wakes nobody",
	old:  "if redis.call('EXISTS', key) == 0 then redis.call(verb, KEYS[2], '0') end\n",
	mut:  "",
}, {
	name: "redisson: an eviction wakes nobody",
	old:  "redis.call('DEL', KEYS[1])\nredis.call(ARGV[1], KEYS[2], '0')\n",
	mut:  "redis.call('DEL', KEYS[1])\n",
}}), in("compat/redisson/readwrite.go", by{likeRedisson}, []mutant{{
	name: "redisson: the release of a writer has no message that is kept",
	old:  "  redis.call(verb, channel, '1')\n  redis.call(verb, channel, '0')\n",
	mut:  "  redis.call(verb, channel, '1')\n",
}, {
	name: "redisson: the eviction of a writer has no message that is kept",
	old:  "if said == '1' then redis.call(ARGV[1], KEYS[2], '0') end\n",
	mut:  "",
}, {
	name: "redisson: a reader is renewed without its own key",
	old:  " and redis.call('EXISTS', own) == 1 then",
	mut:  " then",
}, {
	name: "redisson: the hash outlives the readers that remain",
	old:  "    redis.call('PEXPIRE', key, most)\n",
	mut:  "",
}}), in("compat/redisson/fair.go", by{likeRedisson}, []mutant{{
	name: "redisson: a dead waiter is never passed",
	old:  "    if score and tonumber(score) > now then",
	mut:  "    if score then",
}, {
	name: "redisson: a try joins the queue",
	old:  "if joins and not redis",
	mut:  "if not redis",
}, {
	name: "redisson: those behind a waiter that gives up stay due as late",
	old:  "    if behind then redis.call('ZINCRBY', times, int(-wait), other) end\n",
	mut:  "",
}}), in("compat/redisson/semaphore.go", by{likeRedisson}, []mutant{{
	name: "redisson: the permits of a dead client are lost",
	old:  "  give_back(string.match(dead, '^%d+'), verb)\n",
	mut:  "",
}, {
	name: "redisson: permits are given back twice",
	old:  "if redis.call('ZREM', held, ARGV[5] .. ':' .. holder) == 0 then return gone() end\n",
	mut:  "redis.call('ZREM', held, ARGV[5] .. ':' .. holder)\n",
}, {
	name: "redisson: a watcher asks for Java's permits without a pause",
	old:  "Left: neighbour.Unknown}",
	mut:  "Left: 0}",
}}), in("compat/redisson/fenced.go", by{likeRedisson}, []mutant{{
	name: "redisson: a lock is granted with the token of before",
	old:  "  local token = redis.call('INCR', counter)\n",
	mut:  "  local token = redis.call('GET', counter) or redis.call('INCR', counter)\n",
}}))

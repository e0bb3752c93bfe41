package main

import "slices"

// The locks that are string keys.
const (
	stringNodes = "internal/stringlock/nodes.go"
	stringHold  = "internal/stringlock/hold.go"
	stringWire  = "internal/stringlock/wire.go"
	syncMutex   = "compat/redsync/mutex.go"
	syncErrors  = "compat/redsync/errors.go"
	lockClient  = "compat/redislock/redislock.go"
	lockRetry   = "compat/redislock/retry.go"
)

// The tests beside the originals.
var (
	observing = check{"table tests", "verify/compat", []string{"-run=Observe", "."}}
	sharing   = check{"server tests", "verify/compat", []string{"-run=Crossings|Quorum|Native", "."}}
	surviving = check{"server tests", "verify/compat", []string{"-run=Late|Unlock|Exten|Taken|Lost|Loss|Close", "."}}
	byToken   = check{"server tests", "verify/compat", []string{"-run=OfItsToken|Repeated|Believed", "."}}
)

// inStringLocks are those of the wire of redsync and redislock, and of their API.
var inStringLocks = slices.Concat(in("internal/stringlock/acquire.lua", by{observing, sharing}, []mutant{{
	name: "strings: a key of another client is free",
	old:  "	if value and not mine or ",
	mut:  "	if ",
}}), in("internal/stringlock/release.lua", by{observing}, []mutant{{
	name: "strings: a release deletes the key of another client",
	old:  "	if value == ARGV[1] then",
	mut:  "	if value then",
}}), in("internal/stringlock/extend.lua", by{observing, surviving}, []mutant{{
	name: "strings: an extension brings back a key that is gone",
	old:  "if #missing > 0 and ARGV[3] ~= '1' then return 'expired' end\n",
	mut:  "",
}}), in(stringNodes, by{observing, sharing}, []mutant{{
	name: "strings: one of several servers is a majority",
	old:  "return len(n.list)/2 + 1 }",
	mut:  "return 1 }",
}}), in(stringHold, by{surviving}, []mutant{{
	name: "strings: a grant that came after its end is trusted",
	old:  "(h.item.Deadline() > now || !h.holds.renewer.Remove(h.item))",
	mut:  "(h.item.Deadline() > now || true)",
}}), in(stringHold, by{observing}, []mutant{{
	name: "strings: a release ends with the context of its caller",
	old:  "h.holds.Release(timelimit.Lasting(ctx), ",
	mut:  "h.holds.Release(timelimit.Within(ctx, limit), ",
}}), in(stringWire, by{sharing}, []mutant{{
	name: "strings: a native lock that was not granted keeps what it got",
	old:  "	n.GiveUp(ctx, limit, c.Lock, replies)\n",
	mut:  "",
}}), in(syncMutex, by{surviving}, []mutant{{
	name: "compat/redsync: an unlock ends the newest lock of a mutex",
	old:  "		one := m.held[0]\n		hold, m.value",
	mut:  "		one := m.held[len(m.held)-1]\n		hold, m.value",
}, {
	name: "compat/redsync: an extension sets a key again after the lock was lost",
	old:  "one != nil && !one.hold.Lost()}",
	mut:  "one != nil}",
}}), in(syncMutex, by{observing, surviving}, []mutant{{
	name: "compat/redsync: what a try got stays when it fails",
	old:  "	m.holds.GiveUp(ctx, limit, k, replies)\n	return false",
	mut:  "	return false",
}}), in(stringNodes, by{surviving}, []mutant{{
	name: "strings: what silent servers may have given stays after a cancelled try",
	old:  "					replies[i].Err = ctx.Err()\n",
	mut:  "",
}}), in(stringHold, by{surviving}, []mutant{{
	name: "strings: the context of a hold that has ended lives if nobody asked before",
	old:  "		if h.cause != nil {\n			h.end(h.cause)\n		}\n",
	mut:  "",
}}), in(syncMutex, by{surviving}, []mutant{{
	name: "compat/redsync: a lost lock is remembered though a caller has seen its loss",
	old:  "return one.seen && one.hold.Lost() })",
	mut:  "return false })",
}}), in(syncErrors, by{observing}, []mutant{{
	name: "compat/redsync: others need more than a majority to have the lock",
	old:  "if len(taken) >= quorum {",
	mut:  "if len(taken) > quorum {",
}}), in(lockClient, by{observing}, []mutant{{
	name: "compat/redislock: tries go on after the time of the lock",
	old:  "	if bounded && !time.Now().Before(end) {\n		return context.DeadlineExceeded\n	}\n",
	mut:  "",
}, {
	name: "compat/redislock: a token with other metadata does not get its own lock again",
	old:  "		k.Own = c.valuesOf(token)\n",
	mut:  "",
}}), in(lockClient, by{byToken}, []mutant{{
	name: "compat/redislock: an obtain without an answer ends the lock that has its token",
	old:  "	if o.Token == \"\" { // otherwise",
	mut:  "	if true { // otherwise",
}, {
	name: "compat/redislock: a lock outlives a request that may have shortened it",
	old:  "			l.hold.Shorten(k.TTL)\n		}\n",
	mut:  "		}\n",
}}), in(stringNodes, by{byToken}, []mutant{{
	name: "strings: a key is acquired while it is released with others",
	old:  "	for _, key := range k.Keys {\n		id := ",
	mut:  "	for _, key := range k.Keys[:1] {\n		id := ",
}}), in(lockRetry, by{observing}, []mutant{{
	name: "compat/redislock: a limit counts the first try as a retry",
	old:  "if l.tries.Add(1) > l.most {",
	mut:  "if l.tries.Add(1) >= l.most {",
}}))

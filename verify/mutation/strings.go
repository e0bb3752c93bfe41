package main

// The locks that are string keys.
const (
	stringNodes = "internal/stringlock/nodes.go"
	stringHold  = "internal/stringlock/hold.go"
	stringWire  = "internal/stringlock/wire.go"
	syncMutex   = "compat/redsync/mutex.go"
)

// The tests beside the originals.
var (
	observing = check{"table tests", "verify/compat", []string{"-run=Observe", "."}}
	sharing   = check{"server tests", "verify/compat", []string{"-run=Crossings|Quorum|Native", "."}}
	surviving = check{"server tests", "verify/compat", []string{"-run=Late|Unlock|Extension|TakenBack|Lost", "."}}
)

// inStringLocks are those of the wire of redsync and redislock, and of their API.
var inStringLocks = []mutant{{
	name: "strings: a key of another client is free",
	file: "internal/stringlock/acquire.lua",
	old:  "	if value and not mine or ",
	mut:  "	if ",
	by:   []check{observing, sharing},
}, {
	name: "strings: a release deletes the key of another client",
	file: "internal/stringlock/release.lua",
	old:  "	if value == ARGV[1] then\n		left[",
	mut:  "	if value then\n		left[",
	by:   []check{observing},
}, {
	name: "strings: an extension brings back a key that is gone",
	file: "internal/stringlock/extend.lua",
	old:  "if #missing > 0 and ARGV[3] ~= '1' then return 'expired' end\n",
	mut:  "",
	by:   []check{observing, surviving},
}, {
	name: "strings: one of several servers is a majority",
	file: stringNodes,
	old:  "return len(n.list)/2 + 1 }",
	mut:  "return 1 }",
	by:   []check{observing, sharing},
}, {
	name: "strings: a grant that came after its end is trusted",
	file: stringHold,
	old:  "(h.item.Deadline() > now || !h.holds.renewer.Remove(h.item))",
	mut:  "(h.item.Deadline() > now || true)",
	by:   []check{surviving},
}, {
	name: "strings: a release ends with the context of its caller",
	file: stringHold,
	old:  "h.holds.Release(timelimit.Lasting(ctx), ",
	mut:  "h.holds.Release(timelimit.Within(ctx, limit), ",
	by:   []check{observing},
}, {
	name: "strings: a native lock that was not granted keeps what it got",
	file: stringWire,
	old:  "	n.GiveUp(ctx, limit, c.Lock, replies)\n",
	mut:  "",
	by:   []check{sharing},
}, {
	name: "compat/redsync: an unlock ends the newest lock of a mutex",
	file: syncMutex,
	old:  "		one := m.held[0]\n		hold, m.value",
	mut:  "		one := m.held[len(m.held)-1]\n		hold, m.value",
	by:   []check{surviving},
}, {
	name: "compat/redsync: an extension sets a key again after the lock was lost",
	file: syncMutex,
	old:  "one != nil && !one.hold.Lost()}",
	mut:  "one != nil}",
	by:   []check{surviving},
}, {
	name: "compat/redsync: what a try got stays when it fails",
	file: syncMutex,
	old:  "	m.holds.GiveUp(ctx, limit, k, replies)\n	return false",
	mut:  "	return false",
	by:   []check{observing, surviving},
}}

package main

// inQuorum are those of locks over several servers.
var inQuorum = []mutant{{
	name: "quorum: a server that is ahead draws the tokens",
	file: "quorum/round.go",
	old:  "return replies, majority.Spare(replies, counts, r.ahead())",
	mut:  "return replies, counts",
	by:   []check{uniting},
}, {
	name: "quorum: a server that has lost its memory counts at once",
	file: "internal/majority/clock.go",
	old:  "s.Standings[i], s.Left[i] = Young, left",
	mut:  "s.Left[i] = 0",
	by:   []check{counting, uniting},
}, {
	name: "quorum: a grant is believed when one server has its token",
	file: "quorum/acquire.go",
	old:  "if ok >= c.s.majority {",
	mut:  "if ok >= 1 {",
	by:   []check{uniting},
}, {
	name: "quorum: the greatest token drawn is the lease's though few have it",
	file: "internal/majority/majority.go",
	old:  "return greatest + 1",
	mut:  "return greatest",
	by:   []check{counting, uniting},
}, {
	name: "quorum: a server vouches for a time in which it did not hold",
	file: "quorum/renew.go",
	old:  "if sl := l.slots[i]; sl.holds && sl.known <= l.since {",
	mut:  "if sl := l.slots[i]; sl.holds {",
	by:   []check{uniting},
}, {
	name: "quorum: one server under two names has two votes",
	file: "quorum/mark.go",
	old:  "return other.OK && other.at >= since && other.Run == one.Run",
	mut:  "return false && other.OK && other.at >= since && other.Run == one.Run",
	by:   []check{uniting},
}, {
	name: "quorum: what a server may yet grant is not cancelled",
	file: "quorum/round.go",
	old:  "sl.node.owe(debt{keys: sl.keys, args: args, until: max(until, c.s.now()+limit)})",
	mut:  "_ = debt{keys: sl.keys, args: args, until: max(until, c.s.now()+limit)}",
	by:   []check{uniting},
}, {
	name: "quorum: half of the servers are a majority",
	file: "internal/majority/majority.go",
	old:  "func Of(n int) int { return n/2 + 1 }",
	mut:  "func Of(n int) int { return (n + 1) / 2 }",
	by:   []check{counting, uniting},
}}

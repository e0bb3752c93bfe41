package main

import "slices"

// Deadlocks: the graph by itself, and the library in virtual time.
var (
	knotting  = check{"unit tests", ".", []string{"./internal/waitsfor"}}
	deadlocks = check{"bubble tests", ".", []string{"-run=Deadlock|NobodyWants", "-timeout=60s", "."}}
)

// inDeadlocks are those of how deadlocks are found, and of what is none.
var inDeadlocks = slices.Concat(in("internal/waitsfor/waitsfor.go", by{knotting}, []mutant{{
	name: "permits of a holder that goes on are not counted as free",
	old:  "		if !stuck[s.ID] {\n",
	mut:  "		if false {\n",
}, {
	name: "what waits for one that is no longer stuck stays stuck",
	old:  "			list = append(list, waiting[id]...)\n",
	mut:  "",
}, {
	name: "what only waits for a deadlock of others is taken for a part of it",
	old:  "		if cycle == nil {\n			break\n",
	mut:  "		if cycle == nil {\n			return Knot{Members: []ID{id}, Cycle: []ID{id}}, true\n",
}, {
	name: "a wait for permits whose holders are in another deadlock is taken for one",
	old:  "if stuck = alone.Stuck(); len(stuck) == len(members) {",
	mut:  "if stuck = alone.Stuck(); true {",
}, {
	name: "a node that the cycle reaches counts, although it does not reach the cycle",
	old:  "	members = map[ID]bool{id: true}\n",
	mut:  "	members = map[ID]bool{id: true}\n	for next := range before {\n		members[next] = true\n	}\n",
}}), in("internal/waitsfor/proofs.go", by{knotting, deadlocks}, []mutant{{
	name: "what a client has said once is proven",
	old:  "s = sight{mark: mark, first: p.round}",
	mut:  "s = sight{mark: mark, first: p.round, proven: p.round}",
}}), in("internal/waitsfor/proofs.go", by{knotting}, []mutant{{
	name: "an edge is proven for the round in which its mark is read",
	old:  "s.mark, s.proven = mark, p.round-1",
	mut:  "s.mark, s.proven = mark, p.round",
}, {
	name: "an edge counts for a round in which it was not there yet",
	old:  "return known && s.first <= round && round <= s.proven",
	mut:  "return known && round <= s.proven",
}, {
	name: "an edge that has ended is remembered when it comes back",
	old:  "	p.seen = now\n",
	mut: "	if p.seen == nil {\n		p.seen = now\n	}\n" +
		"	for e, s := range now {\n		p.seen[e] = s\n	}\n",
}}), in("deadlock.go", by{deadlocks}, []mutant{{
	name: "a deadlock needs no proof",
	old:  "		g := graphOf(locks, proven)\n",
	mut:  "		g := graphOf(locks, func(waitsfor.Edge) bool { return true })\n		_ = proven\n",
}, {
	name: "a dead waiter in front is taken for a live one",
	old:  "if w.Silent || !alive[id] && !g.proven(waitsfor.Edge{To: id}) {",
	mut:  "if w.Silent {",
}, {
	name: "a reader does not wait for the writers in front of it",
	old:  "			n.Needs = slices.Clone(before)\n			readers = append(readers, id)\n",
	mut:  "			readers = append(readers, id)\n",
}, {
	name: "one of several holders of permits is enough for a deadlock",
	old:  "				n.Pool, n.Want, n.Free = pool, w.Permits, free\n",
	mut:  "				n.Needs = append(n.Needs, waitsfor.ID{Lock: info.Name, Attempt: h.HolderID})\n",
}, {
	name: "a wait inside a process is not seen",
	old:  "local := wire.LocalClient(w.id); local {\n			g.addLocal",
	mut:  "local := wire.LocalClient(w.id); false && local {\n			g.addLocal",
}, {
	name: "the oldest wait ends, and not the youngest",
	old:  "w.since.After(g.waits[chosen].since)",
	mut:  "w.since.Before(g.waits[chosen].since)",
}, {
	name: "a call that did not ask for it is ended",
	old:  "if waits && w.Breaks && (!found",
	mut:  "if waits && (!found",
}, {
	name: "a deadlock that lasts is reported at every look",
	old:  "	w.told = true\n",
	mut:  "",
}, {
	name: "a call whose locks nobody wants looks for a deadlock",
	old:  "waited = waited || !known || h.waiting",
	mut:  "waited = waited || known || !known || h.waiting",
}, {
	name: "a call believes for ever that nobody wants its locks",
	old:  "waited = waited || !known || h.waiting.Load() > 0 || c.waitNotes.AnyFor(h.lock.name)",
	mut:  "waited = waited || !known && false || c.waitNotes.AnyFor(h.lock.name)",
}, {
	name: "a wait for another goroutine of the process does not count as a wait for its lock",
	old:  " || c.waitNotes.AnyFor(h.lock.name)\n",
	mut:  "\n",
}, {
	name: "a client never says again that its call waits",
	old:  "		w.looks++\n",
	mut:  "",
}}), in("internal/request/waitnotes.go", by{deadlocks}, []mutant{{
	name: "the note of a wait remains after its end",
	old:  "		w.registration.Unnote(field, w, true)\n",
	mut:  "",
}}), in("lock.go", by{deadlocks}, []mutant{{
	name: "the hint of a deadlock names Reentrant for a kind that does not have it",
	old:  "		!reenters && !lk.canReenter:\n",
	mut:  "		false:\n",
}}))

package main

// Deadlocks: the graph by itself, and the library in virtual time.
var (
	knotting  = check{"unit tests", ".", []string{"./internal/waitsfor"}}
	deadlocks = check{"bubble tests", ".", []string{"-run=Deadlock|NobodyWants", "-timeout=60s", "."}}
)

// inDeadlocks are those of how deadlocks are found, and of what is none.
var inDeadlocks = []mutant{{
	name: "permits of a holder that goes on are not counted as free",
	file: "internal/waitsfor/waitsfor.go",
	old:  "		if !stuck[s.ID] {\n",
	mut:  "		if false {\n",
	by:   []check{knotting},
}, {
	name: "what waits for one that is no longer stuck stays stuck",
	file: "internal/waitsfor/waitsfor.go",
	old:  "			list = append(list, waiting[id]...)\n",
	mut:  "",
	by:   []check{knotting},
}, {
	name: "what only waits for a deadlock of others is taken for a part of it",
	file: "internal/waitsfor/waitsfor.go",
	old:  "		if cycle == nil {\n			break\n",
	mut:  "		if cycle == nil {\n			return Knot{Members: []ID{id}, Cycle: []ID{id}}, true\n",
	by:   []check{knotting},
}, {
	name: "a wait for permits whose holders are in another deadlock is taken for one",
	file: "internal/waitsfor/waitsfor.go",
	old:  "if stuck = alone.Stuck(); len(stuck) == len(members) {",
	mut:  "if stuck = alone.Stuck(); true {",
	by:   []check{knotting},
}, {
	name: "a node that the cycle reaches counts, although it does not reach the cycle",
	file: "internal/waitsfor/waitsfor.go",
	old:  "	members = map[ID]bool{id: true}\n",
	mut:  "	members = map[ID]bool{id: true}\n	for next := range before {\n		members[next] = true\n	}\n",
	by:   []check{knotting},
}, {
	name: "what a client has said once is proven",
	file: "internal/waitsfor/proofs.go",
	old:  "s = sight{mark: mark, first: p.round}",
	mut:  "s = sight{mark: mark, first: p.round, proven: p.round}",
	by:   []check{knotting, deadlocks},
}, {
	name: "an edge is proven for the round in which its mark is read",
	file: "internal/waitsfor/proofs.go",
	old:  "s.mark, s.proven = mark, p.round-1",
	mut:  "s.mark, s.proven = mark, p.round",
	by:   []check{knotting},
}, {
	name: "an edge counts for a round in which it was not there yet",
	file: "internal/waitsfor/proofs.go",
	old:  "return known && s.first <= round && round <= s.proven",
	mut:  "return known && round <= s.proven",
	by:   []check{knotting},
}, {
	name: "an edge that has ended is remembered when it comes back",
	file: "internal/waitsfor/proofs.go",
	old:  "	p.seen = now\n",
	mut: "	if p.seen == nil {\n		p.seen = now\n	}\n" +
		"	for e, s := range now {\n		p.seen[e] = s\n	}\n",
	by: []check{knotting},
}, {
	name: "a deadlock needs no proof",
	file: "deadlock.go",
	old:  "		g := graphOf(locks, proven)\n",
	mut:  "		g := graphOf(locks, func(waitsfor.Edge) bool { return true })\n		_ = proven\n",
	by:   []check{deadlocks},
}, {
	name: "a dead waiter in front is taken for a live one",
	file: "deadlock.go",
	old:  "if w.silent || !alive[id] && !g.proven(waitsfor.Edge{To: id}) {",
	mut:  "if w.silent {",
	by:   []check{deadlocks},
}, {
	name: "a reader does not wait for the writers in front of it",
	file: "deadlock.go",
	old:  "			n.Needs = slices.Clone(before)\n			readers = append(readers, id)\n",
	mut:  "			readers = append(readers, id)\n",
	by:   []check{deadlocks},
}, {
	name: "one of several holders of permits is enough for a deadlock",
	file: "deadlock.go",
	old:  "				n.Pool, n.Want, n.Free = pool, w.Permits, free\n",
	mut:  "				n.Needs = append(n.Needs, waitsfor.ID{Lock: s.Name, Attempt: h.HolderID})\n",
	by:   []check{deadlocks},
}, {
	name: "a wait inside a process is not seen",
	file: "deadlock.go",
	old:  "local := wire.LocalClient(w.id); local {\n			g.addLocal",
	mut:  "local := wire.LocalClient(w.id); false && local {\n			g.addLocal",
	by:   []check{deadlocks},
}, {
	name: "the oldest wait ends, and not the youngest",
	file: "deadlock.go",
	old:  "w.since.After(g.waits[chosen].since)",
	mut:  "w.since.Before(g.waits[chosen].since)",
	by:   []check{deadlocks},
}, {
	name: "a call that did not ask for it is ended",
	file: "deadlock.go",
	old:  "if waits && w.Breaks && (!found",
	mut:  "if waits && (!found",
	by:   []check{deadlocks},
}, {
	name: "a deadlock that lasts is reported at every look",
	file: "deadlock.go",
	old:  "	w.told = true\n",
	mut:  "",
	by:   []check{deadlocks},
}, {
	name: "a call whose locks nobody wants looks for a deadlock",
	file: "deadlock.go",
	old:  "waited = waited || !known || h.waiting",
	mut:  "waited = waited || known || !known || h.waiting",
	by:   []check{deadlocks},
}, {
	name: "a call believes for ever that nobody wants its locks",
	file: "deadlock.go",
	old:  "waited = waited || !known || h.waiting.Load() > 0 || c.waits.For(h.lock.name)",
	mut:  "waited = waited || !known && false || c.waits.For(h.lock.name)",
	by:   []check{deadlocks},
}, {
	name: "a wait for another goroutine of the process does not count as a wait for its lock",
	file: "deadlock.go",
	old:  " || c.waits.For(h.lock.name)\n",
	mut:  "\n",
	by:   []check{deadlocks},
}, {
	name: "a client never says again that its call waits",
	file: "deadlock.go",
	old:  "		w.looks++\n",
	mut:  "",
	by:   []check{deadlocks},
}, {
	name: "the note of a wait remains after its end",
	file: "internal/request/waits.go",
	old:  "		w.registration.Unnote(field, w, true)\n",
	mut:  "",
	by:   []check{deadlocks},
}}

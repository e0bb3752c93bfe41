package main

import "slices"

// The store over the locks of a neighbour, on a wire that is a fake, and in virtual time.
var overAWire = check{"table tests", ".", []string{"-run=^Test", "./internal/neighbour"}}

// inNeighbours are those of the store for neighbours.
var inNeighbours = slices.Concat(in("internal/neighbour/actions.go", by{overAWire}, []mutant{{
	name: "neighbour: a cancel is over although a late acquire may arrive",
	old:  "	case unsure > 0:\n		return \"none\", false\n",
	mut:  "",
}, {
	name: "neighbour: several locks keep the first ones when one is held",
	old:  "		left := s.cancelAll(ctx, names[:i], a)\n",
	mut:  "		left := s.cancelAll(ctx, nil, a)\n",
}, {
	name: "neighbour: a waiter subscribes and does not look again",
	old:  "		if hears = s.subscribe(ctx, e); hears {\n",
	mut:  "		if hears = s.subscribe(ctx, e); false {\n",
}, {
	name: "neighbour: a poll brings an attempt back that has left",
	old:  "	if e == nil {\n		return \"gone\", nil",
	mut:  "	if false {\n		return \"gone\", nil",
}, {
	name: "neighbour: a release that is sent twice was a loss",
	old:  "			e.leaving = true\n",
	mut:  "			e.leaving = false\n",
}, {
	name: "neighbour: a minimum time counts from the release",
	old:  "left = max(left, minHold-time.Since(e.held))",
	mut:  "left = max(left, minHold)",
}, {
	name: "neighbour: a renewal without an answer for each hold is believed",
	old:  "	if len(got) != len(holds) {\n",
	mut:  "	if false {\n",
}, {
	name: "neighbour: a waiter that hears nothing waits for the whole lease",
	old:  "	} else if !hears {\n",
	mut:  "	} else if false {\n",
}, {
	name: "neighbour: a mode that the wire has not is sent",
	old:  "	if err := s.carries(a.Mode); err != nil {\n		return \"\", err\n	}\n	wait :=",
	mut:  "	wait :=",
}}), in("internal/neighbour/entry.go", by{overAWire}, []mutant{{
	name: "neighbour: the wire is not told that a request may be late",
	old:  "		a.Late = e.unsure > 0\n",
	mut:  "",
}, {
	name: "neighbour: a request without an answer has no effect",
	old:  "	if err != nil && !definite(err) {\n		s.update(e",
	mut:  "	if false {\n		s.update(e",
}}), in("internal/neighbour/topic.go", by{overAWire}, []mutant{{
	name: "neighbour: a message wakes nobody",
	old:  "			pushes = append(pushes, push{e.channel, lookAgain(e.ID)})\n",
	mut:  "",
}, {
	name: "neighbour: a message wakes all waiters",
	old:  "		limit = min(limit, w.Wakes(payload))\n",
	mut:  "		_ = w\n",
}, {
	name: "neighbour: a subscription that was interrupted wakes nobody",
	old:  "		Resumed: func() { s.wakeAll(t, \"\") },\n",
	mut:  "		Resumed: func() {},\n",
}}))

// The bridge, in virtual time.
var bridging = check{"simulation", ".", []string{"-run=^Test", "./compat/bridge"}}

// inBridge are those of the bridge.
var inBridge = in("compat/bridge/bridge.go", by{bridging}, []mutant{{
	name: "bridge: the native form is acquired first",
	old:  "		halves = []*holdfast.Mutex{old, native}\n",
	mut:  "		halves = []*holdfast.Mutex{native, old}\n",
}, {
	name: "bridge: the old form stays if the native one is not acquired",
	old:  "		_ = first.Release(ctx)\n",
	mut:  "",
}, {
	name: "bridge: a lease lasts as long as its longer form",
	old:  "		left = min(left, half.Remaining())\n",
	mut:  "		left = max(left, half.Remaining())\n",
}, {
	name: "bridge: a wait that gives up does not say why",
	old:  "	case gone == nil:\n",
	mut:  "	case gone == nil && end == nil:\n",
}, {
	name: "bridge: a wait that gives up has another error than its context",
	old:  "err != nil && end != nil {\n		return end\n",
	mut:  "err != nil && end != nil {\n		return err\n",
}, {
	name: "bridge: after the release a loss is forgotten",
	old:  "(ended == nil || errors.Is(ended, holdfast.ErrReleased))",
	mut:  "ended == nil",
}})

package main

import "slices"

// inWaiting are those of waiters and watchers, and of what goroutines of a process hand to each other.
var inWaiting = slices.Concat(in("attempt.go", worlds, []mutant{{
	name: "a waiter never looks by itself",
	by:   "TestWorlds",
	old:  "case <-time.After(due - c.now()):",
	mut:  "case <-time.After(1 << 60):",
}}), in("localturn.go", worlds, []mutant{{
	name: "a local pass without a new token",
	by:   "TestWorlds",
	old:  "	h.handOvers.Add(1)\n	return true\n",
	mut:  "	return true\n",
}}), in("check.go", library, []mutant{{
	name: "the token of an earlier lease of the same hold is checked as live",
	by:   "TestTheTokenOfAnEarlierLeaseOfTheSameProcessIsRefused",
	old:  "	case found.Live && server<<c.handOverBits == token:\n",
	mut:  "	case found.Live || found.Unknown:\n",
}}), in("lock.go", library, []mutant{{
	name: "a checked lease is handed over inside the process",
	by:   "TestTheTokenOfAnEarlierLeaseOfTheSameProcessIsRefused",
	old:  "chosen.noRenewal || chosen.checked ||",
	mut:  "chosen.noRenewal ||",
}, {
	name: "every attempt says that its hold is never handed over",
	by:   "TestTheTokenOfAnEarlierLeaseOfTheSameProcessIsRefused",
	old:  "	own = own && m.owner",
	mut:  "	own = m.owner",
}}), in("attempt.go", library, []mutant{{
	name: "an attempt that gives up leaves its position behind",
	by:   "TestAWaiterWithoutPushesLeavesTheQueueLikeAnyOther",
	old:  "			at.cancel()\n			if silence != nil {\n",
	mut:  "			if silence != nil {\n",
}}), in("localturn.go", library, []mutant{{
	name: "a loss and a release pass the turn on twice",
	by:   "TestALossAndTheReleasesAfterItPassTheTurnOnOnce",
	old:  "	if h.hasTurn.Swap(false) {\n",
	mut:  "	if h.hasTurn.Load() {\n",
}}), in("pushstate.go", library, []mutant{{
	name: "a waiter that cannot be pushed to waits for a push",
	by:   "TestWithoutSubscriptionsWaitersPoll",
	old:  "	return at.c.pushing.mute.Load() || !at.c.hub.Reaches(at.waiter)\n",
	mut:  "	return false\n",
}, {
	name: "a waiter that could not subscribe in time polls for its whole wait",
	by:   "TestWithoutSubscriptionsWaitersPoll",
	old:  "	if c.hub.Reaches(at.waiter) || !c.pushing.due(c.now()) {\n",
	mut:  "	if true {\n",
}}), in("internal/pushes/channels.go", unit("./internal/pushes"), []mutant{{
	name: "a waiter does not poll when its subscription is restored",
	by:   "TestAfterABreakOfTheSubscriptionItsWaitersPoll",
	old:  "c.cfg.Listen(ctx, name, func() { c.cfg.Tell(c.Waiters(name)) })\n",
	mut:  "c.cfg.Listen(ctx, name, func() {})\n",
}, {
	name: "the subscription is not confirmed before the request that may queue",
	by:   "TestManyWaitersShareOneSubscription",
	old:  "	if ch == nil || ch.stop == nil || c.stopped {\n		return w, false\n",
	mut:  "	if ch == nil || c.stopped {\n		return w, false\n",
}}), in("internal/localqueue/queue.go", library, []mutant{{
	name: "a goroutine that gives up keeps the turn",
	by:   "TestAWaiterThatGivesUpAsItGetsTheLockKeepsNothing",
	old:  "	default:\n		t.PassOn()\n",
	mut:  "",
}}), in("internal/localqueue/queue.go", unit("./internal/localqueue"), []mutant{{
	name: "a hold that comes to a waiter as it leaves is held for ever",
	by:   "TestAHoldForAWaiterThatLeavesTooLateGoesBack",
	old:  "		q.rules.Release(p.hold, t.PassOn)\n",
	mut:  "		t.PassOn()\n",
}}), in("internal/localqueue/policy.go", unit("./internal/localqueue"), []mutant{{
	name: "passing inside the process has no bounds",
	by:   "TestHandOversAreBoundedByCountAndTime",
	old:  "	return handOvers < min(b.count, limit, maxHandOvers) && age < b.time\n",
	mut:  "	return handOvers < min(limit, maxHandOvers) || b.time == 0\n",
}, {
	name: "a hold is passed once more often than its tokens last",
	by:   "TestHandOversAreBoundedByCountAndTime",
	old:  "	return handOvers < min(",
	mut:  "	return handOvers <= min(",
}}), in("loss.go", library, []mutant{{
	name: "a lost lease leaves the turn to nobody",
	by:   "TestAfterAnEvictionTheLockIsFreeForEverybodyAtOnce",
	old:  "			h.passTurnOn()\n		}\n		h.lock.client.reportLoss(live, err)\n",
	mut:  "		}\n		h.lock.client.reportLoss(live, err)\n",
}}), in("deadlock.go", library, []mutant{{
	name: "a deadlock needs no proof",
	by:   "TestADeadProcessIsInNoDeadlock",
	old:  "		g := graphOf(locks, proven)\n",
	mut:  "		g := graphOf(locks, func(waitsfor.Edge) bool { return true })\n		_ = proven\n",
}}), in("members.go", library, []mutant{{
	name: "a hold is handed over while it is extended",
	by:   "TestAChangeThatMeetsAReleaseIsNotForTheNextGoroutine",
	old:  "		how == asSuccessor && x.extending > 0: // the next lease has not asked for that TTL\n",
	mut:  "		false:\n",
}}), in("internal/localqueue/list.go", unit("./internal/localqueue"), []mutant{{
	name: "the turn goes to the last goroutine and not to the first",
	by:   "TestWaitersAreAnsweredInOrderOfArrival",
	old:  "	first := l.last.next\n",
	mut:  "	first := l.last\n",
}, {
	name: "a goroutine that has got the turn may leave without it",
	by:   "TestAWaiterThatLeavesTooLateHasItsAnswer",
	old:  "	if p.next == nil {\n		return false\n",
	mut:  "	if p.next == nil {\n		return true\n",
}}), in("lease.go", library, []mutant{{
	name: "a loss that the caller notices first keeps the turn",
	by:   "TestALossThatTheHolderNoticesFirstPassesTheTurnOn",
	old:  "		h.passTurnOn() // the caller may",
	mut:  "		// the caller may",
}}), in("internal/batch/batch.go", unit("./internal/batch"), []mutant{{
	name: "a request that was taken back is sent",
	by:   "TestACancelledRequestIsNotSent",
	old:  "		if i.state.CompareAndSwap(queued, sent) {\n",
	mut:  "		if i.state.CompareAndSwap(queued, sent) || true {\n",
}, {
	name: "the rest of a batch's queue has no timer",
	by:   "TestASilentServerDoesNotKeepTheRestOfAQueue",
	old:  "\tif rest > 0 {\n",
	mut:  "\tif rest < 0 {\n",
}}), in("awaitfree.go", library, []mutant{{
	name: "a watcher does not ask again after it has subscribed",
	by:   "TestAReleaseTellsAllWatchersAtOnce",
	old:  "		if f.subscribe(ctx) {\n			continue",
	mut:  "		if f.subscribe(ctx) && false {\n			continue",
}, {
	name: "a watcher misses what happened while its subscription was broken",
	by:   "TestAWatcherIsToldThoughThePushIsLostOrTheHolderDies",
	old:  "Look: func(bool) { signal(f.ask) },",
	mut:  "Look: func(bool) {},",
}}), in("internal/request/cancel.go", unit("./internal/request"), []mutant{{
	name: "a former waiter is forgotten after a TTL",
	by:   "TestAPushLongAfterAnAttemptWasAbandonedIsAnsweredWithACancel",
	old:  "c.remember(a, number, now, gone+Outage)",
	mut:  "c.remember(a, number, now, until)",
}}))

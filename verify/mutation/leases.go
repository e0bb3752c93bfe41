package main

import "slices"

// inLeases are those of when a lease may be trusted, of its renewals, its loss and its end.
var inLeases = slices.Concat(in("attempt.go", library, []mutant{{
	name: "a pushed grant of a fixed lease is believed without being asked about",
	by:   "TestALeaseWithoutRenewalEndsWithItsTTL",
	old:  "!at.inQueue || at.lock.noRenewal || ",
	mut:  "!at.inQueue || ",
}, {
	name: "a pushed lease is believed for longer than was asked for",
	by:   "TestAFalsePushDoesDamageForOneRoundTrip",
	old:  "Lease: min(g.Lease, whole),",
	mut:  "Lease: g.Lease,",
}, {
	name: "a pushed grant is trusted in its lock-delay",
	by:   "TestNoLeaseIsTrustedForItsLockDelay",
	old:  "pushedLease: p.Lease - p.Delay}",
	mut:  "pushedLease: p.Lease}",
}, {
	name: "a pushed grant is trusted before its acknowledgements",
	by:   "TestAPushedGrantIsNotTrustedBeforeItsAcknowledgements",
	old:  "at.lock.noRenewal || at.lock.ack.Wanted() ||",
	mut:  "at.lock.noRenewal ||",
}}), in("attempt.go", worlds, []mutant{{
	name: "the deadline is counted from the reply to an acquisition",
	by:   "TestWorlds",
	old: "	sent := c.now()\n	limit := leasetime.AcquireLimit(c.sender.Timeout, lk.ttl, at.unanswered)\n" +
		"	a, err := c.sender.AskWithin(ctx, buf, limit, action, lk.keys(), args)\n",
	mut: "	limit := leasetime.AcquireLimit(c.sender.Timeout, lk.ttl, at.unanswered)\n" +
		"	a, err := c.sender.AskWithin(ctx, buf, limit, action, lk.keys(), args)\n	sent := c.now()\n",
}}), in("attempt.go", library, []mutant{{
	name: "what an acquisition of unknown outcome was granted is kept",
	by:   "TestCloseWaitsForPendingCancels",
	old:  "	if at.needsCancel {\n		at.cancel()\n	}\n	return retry.finalError",
	mut:  "	return retry.finalError",
}}), in("hold.go", library, []mutant{{
	name: "the deadline counts the lock-delay, too",
	by:   "TestALostLockIsKeptForItsLockDelay",
	old:  "h.TTL, h.NoRenewal = lk.ttl, lk.noRenewal",
	mut:  "h.TTL, h.NoRenewal = lk.onServer(lk.ttl), lk.noRenewal",
}}), in("release.go", library, []mutant{{
	name: "the release of a lost lease frees a lock with a lock-delay",
	by:   "TestALostLockIsKeptForItsLockDelay",
	old:  "	case back > 0 && !how.unused:\n		if",
	mut:  "	case back < 0 && !how.unused:\n		if",
}, {
	name: "a release past the deadline frees a lock with a lock-delay",
	by:   "TestAReleasePastTheDeadlineKeepsTheLockDelay",
	old:  "	if late || h.Deadline() <= now {\n",
	mut:  "	if late {\n",
}}), in("internal/renewer/renewer.go", library, []mutant{{
	name: "the answer to a slow confirmation is not waited for",
	by:   "TestASlowConfirmationIsNoLoss",
	old:  "			bound = min(bound, leasetime.ConfirmWithin(left))\n",
	mut:  "			left = leasetime.ConfirmWithin(left)\n",
}}), in("internal/renewer/renewer.go", worlds, []mutant{{
	name: "the deadline is counted from the reply to a renewal",
	by:   "TestWorlds",
	old:  "			a.countFrom(s.sent, a.For)\n",
	mut:  "			a.countFrom(now, a.For)\n",
}, {
	name: "a lease is renewed after its release",
	by:   "TestWorlds",
	old:  "	heap.Remove(&r.queue, int(it.index))\n	return true\n",
	mut:  "	return true\n",
}}), in("internal/renewer/renewer.go", unit("./internal/renewer"), []mutant{{
	name: "an expired lease is not signalled",
	by:   "TestALossThatWasSeenIsNotTakenBack",
	old:  "	for _, it := range lost {\n		r.cfg.Lost(it, it.EndReason())\n",
	mut:  "	for _, it := range lost {\n		_ = it\n",
}, {
	name: "a pushed grant is renewed like any other",
	by:   "TestAPushedGrantIsConfirmedAtOnceForTheWholeTTL",
	old:  "		it.due, it.next = now, min(now, it.Deadline())\n",
	mut:  "",
}, {
	name: "a renewal may take longer than the lease lasts",
	by:   "TestARenewalIsBoundedByAThirdOfTheLeaseAndTheOldDeadline",
	old:  "		left := a.Deadline() - s.sent\n",
	mut:  "		left := time.Duration(math.MaxInt64)\n",
}, {
	name: "a shortened lease is trusted until its old deadline",
	by:   "TestAShortenedLeaseStaysShort",
	old:  "		it.trust.Store(int64(d))\n		it.Limits.noteDeadline(d) // NotAfter",
	mut:  "		it.Limits.noteDeadline(d) // NotAfter",
}}), in("internal/renewer/renewer.go", library, []mutant{{
	name: "a renewal takes a loss back that was seen",
	by:   "TestALossThatWasSeenIsNotTakenBackByALateAnswer",
	old:  "		case a.Deadline() <= now: // over, although the timer is late\n",
	mut:  "		case false:\n",
}}), in("internal/leasetime/leasetime.go", unit("./internal/leasetime"), []mutant{{
	name: "a push counts from its arrival",
	by:   "TestAPushedGrantIsTrustedNoLongerThanItsLease",
	old:  "	return p.Sent + waited - waited/100\n",
	mut:  "	return now\n",
}, {
	name: "a push is believed without the drift of the clocks since the last answer",
	by:   "TestAPushedGrantIsTrustedNoLongerThanItsLease",
	old:  "	return p.Sent + waited - waited/100\n",
	mut:  "	return p.Sent + waited\n",
}, {
	name: "a push from before the last answer is trusted",
	by:   "TestAnOldPushOrOneWithLittleTimeLeftIsNotTrusted",
	old:  "return passed >= 0 && passed",
	mut:  "return passed",
}}), in("internal/leasetime/leasetime.go", worlds, []mutant{{
	name: "no margin is taken off a lease",
	by:   "TestWorlds",
	old:  "	return ttl/100 + 2*time.Millisecond\n",
	mut:  "	return 0\n",
}}), in("internal/request/cancel.go", library, []mutant{{
	name: "a cancel that came before its request is enough",
	by:   "TestARunOfUnknownOutcomeIsCancelledWithItsPeriod",
	old:  "		return answer.Kind != wire.None, err\n",
	mut:  "		return answer.Kind != wire.None || err == nil, err\n",
}, {
	name: "a cancel ends with the TTL although the server is silent",
	by:   "TestARunThatAStoppedServerGrantsLaterIsCancelledWithItsPeriod",
	old:  "	return m.SilentUntil + Outage\n",
	mut:  "	return m.SilentUntil\n",
}, {
	name: "after an outage, one answer ends a cancel",
	by:   "TestAnAcquisitionThatIsLateAfterAnOutageIsCancelled",
	old:  "	m.Until = max(m.Until, now+m.WatchLate)\n",
	mut:  "",
}}), in("lease.go", library, []mutant{{
	name: "a hold that is lost, or that Close has released, becomes a lease",
	by:   "TestAGrantThatIsConfirmedAsTheClientClosesIsNoLease",
	old: "	if h.admits(asAgreed, nil) != admitted {\n		return nil\n	}\n" +
		"	h.lease, h.departed = ls, false\n",
	mut: "	h.lease, h.departed = ls, false\n",
}, {
	name: "a check after the deadline does not end the lease",
	by:   "TestAfterTheDeadlineTheContextIsDone",
	old:  "	if ls.endWith(lost) {\n",
	mut:  "	if ls.cause == nil && lost == nil {\n",
}}), in("release.go", library, []mutant{{
	name: "a release of unknown outcome is left to the lease",
	by:   "TestAReleaseThatFailsIsRepeatedInTheBackground",
	old:  "			r.later(action, args)\n",
	mut:  "			_ = request.Transient(err)\n",
}}), in("release.go", worlds, []mutant{{
	name: "a release is stopped by its context",
	by:   "TestWorlds",
	old:  ".run(r.limited.Lasting(ctx))\n",
	mut:  ".run(ctx)\n",
}}), in("renewal.go", library, []mutant{{
	name: "a swallowed WAIT count",
	by:   "TestAGrantThatTooFewAcknowledgeIsGivenBack",
	old:  "	if !lk.ack.Wanted() || got.Covers(lk.ack.Need) {\n",
	mut:  "	if !lk.ack.Wanted() || got.Replicas >= 0 {\n",
}}), in("client.go", library, []mutant{{
	name: "a push for an attempt of another process is accepted",
	by:   "TestPushesOfStrangersChangeNothing",
	old:  "		if err != nil || bad != nil || wire.Client(attempt) != id {\n",
	mut:  "		if err != nil || bad != nil || wire.Client(attempt) == \"\" {\n",
}}), in("internal/request/preflight.go", library, []mutant{{
	name: "a missing permission is found only in the middle of a script",
	by:   "TestMissingPermissionsAreNamedTogetherAndFirst",
	old:  "	if len(needed) > 0 {\n",
	mut:  "	if len(needed) > 99 {\n",
}}), in("config.go", library, []mutant{{
	name: "a TTL that the server cannot count is accepted",
	by:   "TestAConfigThatCannotWorkIsRefusedWithTheFieldsName",
	old:  "	case ttl%time.Millisecond != 0:\n",
	mut:  "	case ttl < 0:\n",
}}), in("evict.go", library, []mutant{{
	name: "a token that no hold can have evicts every hold",
	by:   "TestEvictSparesWhoTookTheLockMeanwhile",
	old:  "	if token == 0 && e.Token != 0 {\n",
	mut:  "	if false {\n",
}}), in("leak.go", library, []mutant{{
	name: "a lease that is dropped is renewed all the same",
	by:   "TestALeaseThatIsDroppedIsReportedAndEndsWithItsTTL",
	old:  "	h.lock.client.renewer.StopRenewal(&h.Item)\n",
	mut:  "",
}}), in("internal/clock/mixed_linux.go", unit("./internal/clock"), []mutant{{
	name: "a suspension is not counted until the boot clock is read again",
	by:   "TestASuspensionCountsAtOnce",
	old:  "mono-r.mono < fresh && (wall-mono-r.gap).Abs() <= tolerance {",
	mut:  "mono-r.mono < fresh && wall != 0 {",
}}), in("notifier.go", library, []mutant{{
	name: "the log handler runs where leases are lost",
	by:   "TestAHandlerThatBlocksDelaysNobody",
	old:  "	if item.event.Kind == 0 && (item.log == nil || n.log == nil) {\n",
	mut:  "	if item.log != nil && n.log != nil {\n		item.log(n.log)\n	}\n	if item.event.Kind == 0 {\n",
}}), in("internal/wire/answer.go", unit("./internal/wire"), []mutant{{
	name: "a push of no lease is read as a grant",
	by:   "TestPushesAreReadExactly",
	old:  " || a.Now == 0 || a.Lease == 0 {",
	mut:  " {",
}}))

package main

import "slices"

// inKinds are those of what only some kinds of lock do.
var inKinds = slices.Concat(in("internal/request/errors.go", library, []mutant{{
	name: "what a full server has refused cannot run late",
	by:   "TestALateCopyOfARefusedRequestDoesNoHarm",
	old:  "	case \"OOM\", \"NOAUTH\", \"NOPERM\":\n",
	mut:  "	case \"NOAUTH\", \"NOPERM\":\n",
}}), in("election.go", library, []mutant{{
	name: "a resumption that fails frees the lock beside the former leader",
	by:   "TestAResumptionThatFailsLetsNobodyLeadBesideTheFormerLeader",
	old:  "	m.notBefore = lk.client.now() + d\n",
	mut:  "	m.notBefore = d - d\n",
}}), in("periodic.go", library, []mutant{{
	name: "a late copy of a refused run takes the period",
	by:   "TestALateCopyOfARefusedRequestDoesNoHarm",
	old:  "		if request.MayRunLate(err) {\n",
	mut:  "		if false {\n",
}}), in("evict.go", library, []mutant{{
	name: "an eviction after a refused reading does not say what it may end",
	by:   "TestALateCopyOfARefusedRequestDoesNoHarm",
	old:  "		case request.Refusal(err) != nil && !request.MayRunLate(err):\n",
	mut:  "		case request.Refusal(err) != nil:\n			return nil, nil\n",
}}), in("conversion.go", library, []mutant{{
	name: "a writer writes on after a refused downgrade",
	by:   "TestALateCopyOfARefusedRequestDoesNoHarm",
	old:  "want == down && request.MayRunLate(err)",
	mut:  "false",
}}), in("members.go", library, []mutant{{
	name: "a hold is released although another reader has joined it",
	by:   "TestReadersAndWritersThatRaceExcludeEachOtherAndLeakNothing",
	old:  "func (m *members) alone() bool { return m.shared && m.reading() == 0 }",
	mut:  "func (m *members) alone() bool { return m.shared && len(m.peek().readers) == 0 }",
}, {
	name: "a reader joins under a lease that is being upgraded",
	by:   "TestNoReaderBeginsUnderALeaseThatIsBeingUpgraded",
	old:  "case x.converting != nil, how",
	mut:  "case x.converting != nil && how != underLease, how",
}}), in("members.go", worlds, []mutant{{
	name: "a reader joins a hold that is about to be a writer's",
	by:   "TestWorlds",
	old:  "case x.converting != nil, how != underLease && x.unsettled != still,\n",
	mut:  "case\n",
}}), in("periodic.go", library, []mutant{{
	name: "a loop counts its periods from the end of a run",
	by:   "TestALoopCountsPeriodsFromTheirBeginning",
	old:  "	wait := max(result.Next-(c.now()-seen), 0)\n",
	mut:  "	wait := result.Next\n",
}}), in("conversion.go", library, []mutant{{
	name: "a reader of two becomes a writer at once",
	by:   "TestAConflictIsRefusedWithWhatToDo",
	old:  "	case want == up && h.othersRead() != nil:\n		return nil, false, h.othersRead()\n",
	mut:  "",
}, {
	name: "an upgrade that begins with a downgrade does not look for readers again",
	by:   "TestAnUpgradeAfterALostDowngradeCountsTheReadersThatItMakes",
	old:  "			err = h.onlyReader() // the first step may have made readers of leases under ls\n",
	mut:  "",
}, {
	name: "a step keeps its token",
	by:   "TestAWriterDowngradesWithNoWriterInBetween",
	old:  "	ls.token.Store(h.token())\n",
	mut:  "",
}, {
	name: "a step of unknown outcome is forgotten",
	by:   "TestAConversionOfUnknownOutcomeIsResolvedByTheNext",
	old:  "		steps = []conversion{x.unsettled, want}\n",
	mut:  "		steps = []conversion{want}\n",
}}), in("options.go", library, []mutant{{
	name: "a reader's lease is longer than it may hold the lock",
	by:   "TestMaxHoldCutsTheLeasesOfReadersAndWriters",
	old:  "		kind.readTTL = min(kind.readTTL, leasetime.TTLFor(kind.maxHold))\n",
	mut:  "",
}}), in("multilease.go", library, []mutant{{
	name: "several locks are trusted as long as the last of them",
	by:   "TestSeveralLocksAreTrustedAsLongAsTheFirstThatEnds",
	old:  "		least = min(least, part.Remaining())\n",
	mut:  "		least = part.Remaining()\n",
}, {
	name: "locks that are held together are renewed after one of them is lost",
	by:   "TestAfterALossTheOtherLocksEndThoughReleaseNeverComes",
	old:  "	mls.onEnd(mls.stopRenewal)\n",
	mut:  "",
}}), in("multi.go", library, []mutant{{
	name: "a call for several locks is overtaken for ever",
	by:   "TestAWaitForSeveralLocksIsNotStarved",
	old:  "const mostGivenBack = 8\n",
	mut:  "const mostGivenBack = 1 << 30\n",
}}), in("election_observe.go", library, []mutant{{
	name: "an observer is told of an older leader again",
	by:   "TestAnObserverIsNotToldOfAnEarlierLeaderAgain",
	old:  "	case err == nil && leader.Token != 0 && leader.Token < o.highest:\n",
	mut:  "	case err == nil && leader.Token != 0 && leader.Token < 0:\n",
}}), in("reentry.go", library, []mutant{{
	name: "the lock is free when the first re-entry is released",
	by:   "TestALockIsReenteredUnderItsLeaseWithoutTheNetwork",
	old:  "	return root.left && len(in) == 0\n",
	mut:  "	return root.left || len(in) == 0\n",
}}), in("internal/localqueue/shared.go", library, []mutant{{
	name: "readers of one process do not share a hold",
	by:   "TestADroppedReaderLeavesTheOthersAlone",
	old:  "	if q.rules.Joinable(h) {\n		e.hold = h\n	}\n	for e.tries",
	mut:  "	for e.tries",
}, {
	name: "readers that join together are not counted",
	by:   "TestReadersAndWritersThatRaceExcludeEachOtherAndLeakNothing",
	old:  "	for e.queue.last != nil && q.rules.Reserve(h) {\n",
	mut:  "	for e.queue.last != nil && q.rules.Joinable(h) {\n",
}}), in("internal/renewer/item.go", unit("./internal/renewer"), []mutant{{
	name: "a fixed lease is renewed",
	by:   "TestALeaseWithoutRenewalIsNeverRenewed",
	old:  "(it.NoRenewal || it.reached()) && !it.unconfirmed",
	mut:  "it.reached() && !it.unconfirmed",
}}), in("internal/localqueue/policy.go", unit("./internal/localqueue"), []mutant{{
	name: "a reader joins though a writer of its process waits",
	by:   "TestAReaderSharesWhileTheAnswerThatNobodyWaitsIsFresh",
	old:  "	case writerHere:\n",
	mut:  "	case writerHere && false:\n",
}}), in("lessen.go", library, []mutant{{
	name: "the other entries of an owner trust a lease that one of them shortens",
	by:   "TestALeaseIsNotShortenedWhereOthersTrustIt",
	old:  "	case h.lock.owner != \"\":\n",
	mut:  "	case h.lock.owner == \"-\":\n",
}}), in("election.go", library, []mutant{{
	name: "a leader resumes while the former still believes",
	by:   "TestARestartedLeaderResumesItsTerm",
	old:  "until := c.now() + trustOf(left)\n",
	mut:  "until := c.now() + left/1000\n",
}, {
	name: "a resumption is kept without its acknowledgements",
	by:   "TestAResumptionThatTooFewAcknowledgeIsGivenBack",
	old:  "if err == nil && lk.ack.Wanted() {",
	mut:  "if err == nil && lk.ack.Wanted() && false {",
}}))

package main

import "slices"

// inQuorum are those of locks over several servers.
var inQuorum = slices.Concat(in("quorum/round.go", quorum, []mutant{{
	name: "quorum: a server that is ahead draws the tokens",
	by:   "TestTokensRiseThoughOneClockIsAheadAndAnotherServerForgets",
	old:  "return replies, majority.WithoutAhead(replies, counts, r.tokensAhead())",
	mut:  "return replies, counts",
}}), in("quorum/bid.go", quorum, []mutant{{
	name: "quorum: a pushed grant counts for as long as any",
	by:   "TestAPushThatNobodyConfirmsDoesNotCount",
	old:  "b.countsFrom >= from && !b.unconfirmed",
	mut:  "b.countsFrom >= from",
}, {
	name: "quorum: a hold from before counts with the new lease",
	by:   "TestAHoldFromBeforeThePollDoesNotCount",
	old:  "!b.holds || b.countsFrom >= from && !b.unconfirmed",
	mut:  "!b.holds || !b.unconfirmed",
}, {
	name: "quorum: a server that was silent for a lease may hold",
	by:   "TestALateGrantIsNotKeptOnAMinority",
	old:  "return now-b.countsFrom < ttl",
	mut:  "return now >= 0",
}, {
	name: "quorum: a request that arrives after the release is not cancelled",
	by:   "TestLateAnswersCostNoLeaseWhereEveryServerIsNeeded",
	old:  "if now < b.unansweredUntil {",
	mut:  "if now < 0*b.unansweredUntil {",
}, {
	name: "quorum: a request without an answer is not cancelled",
	by:   "TestALostAnswerLeavesNothingBehind",
	old:  "return !b.holds && !b.queued && now >= b.unansweredUntil",
	mut:  "return !b.holds && !b.queued",
}, {
	name: "quorum: a cancel that failed is given up early",
	by:   "TestACancelWithoutAnAnswerIsSentForAsLongAsTheHoldMayLast",
	old:  "return max(b.askedAt, b.countsFrom) + ttl",
	mut:  "return b.askedAt + ttl",
}, {
	name: "quorum: a grant vouches from its sending",
	by:   "TestALateQueuedDoesNotUndoAGrant",
	old:  "\t\tb.heldSince = now\n",
	mut:  "\t\tb.heldSince = sent\n",
}, {
	name: "quorum: a poll without an answer moves the time from which a hold counts",
	by:   "TestAPollWithoutAnAnswerMovesNoHold",
	old:  "if !b.queued && !b.holds {",
	mut:  "if !b.holds || b.holds {",
}}), in("quorum/round.go", quorum, []mutant{{
	name: "quorum: a server that joined later may have held since the grant",
	by:   "TestWhichServersMayHoldAndWhichConfirm",
	old:  "na.hasHeld(r.acq.renewedAt) && na.mayLast(now, r.acq.longest)",
	mut:  "na.holds && na.mayLast(now, r.acq.longest)",
}}), in("internal/majority/clock.go", unit("./internal/majority"), []mutant{{
	name: "quorum: a server that has lost its memory counts at once",
	by:   "TestANewQuorumBeginsAtOnceWhereEnoughServersAreKnown",
	old:  "s.Standings[i], s.Left[i] = OnProbation, left",
	mut:  "s.Left[i] = 0",
}, {
	name: "quorum: a new quorum begins at once with any majority",
	by:   "TestANewQuorumBeginsAtOnceWhereEnoughServersAreKnown",
	old:  "func Founders(n int) int { return (n+Of(n)-1)/2 + 1 }",
	mut:  "func Founders(n int) int { return Of(n) }",
}, {
	name: "quorum: clocks an hour apart agree",
	by:   "TestAClockThatIsSteppedIsFoundOut",
	old:  "of[j] && s.low <= at && at <= s.high {",
	mut:  "of[j] && s.low <= at && at <= s.high+time.Hour {",
}, {
	name: "quorum: where clocks differ the first to agree is believed",
	by:   "TestIfNobodyKnowsWhichClockIsRightAllServersWait",
	old:  "if most < n && most < Of(len(readings)) {",
	mut:  "if most < n && most < 0 {",
}, {
	name: "quorum: a minority begins a quorum",
	by:   "TestANewQuorumBeginsAtOnceWhereEnoughServersAreKnown",
	old:  "if answered < Of(len(readings)) {",
	mut:  "if answered < 1 {",
}, {
	name: "quorum: a clock that was set forward counts as one that was set back",
	by:   "TestAClockThatIsSteppedIsFoundOut",
	old:  "case current[i] && at.high < common.low:",
	mut:  "case current[i] && at.high != common.low:",
}, {
	name: "quorum: a grant is vouched for where too few clocks agree",
	by:   "TestAClockThatIsSteppedIsFoundOut",
	old:  "case most < Of(len(readings)):\n\t\t\ts.Standings",
	mut:  "case most < 1:\n\t\t\ts.Standings",
}, {
	name: "quorum: a grant is vouched for by a clock that was set",
	by:   "TestAClockThatIsSteppedIsFoundOut",
	old:  "\t\tcase !in[i]:\n\t\t\ts.Standings",
	mut:  "\t\tcase !in[i] && false:\n\t\t\ts.Standings",
}, {
	name: "quorum: a comparison never gets old",
	by:   "TestAComparisonThatIsOldDoesNotVouch",
	old:  "apart(now+common.middle(), r.Mark.At) > longest:",
	mut:  "apart(now+common.middle(), r.Mark.At) > 1000*longest:",
}, {
	name: "quorum: a quorum that begins again keeps its number",
	by:   "TestIfNobodyKnowsWhichClockIsRightAllServersWait",
	old:  "newest(readings).Epoch%mostEpoch+1,",
	mut:  "newest(readings).Epoch,",
}, {
	name: "quorum: one server's mark overrules a majority",
	by:   "TestWhichOfTwoQuorumsGoesOn",
	old:  "if r.Mark.Epoch > 0 && same >= Of(len(readings)) {",
	mut:  "if r.Mark.Epoch > 0 && same > len(readings) {",
}, {
	name: "quorum: a damaged mark is taken for none",
	by:   "TestADamagedMarkIsNoSignOfANewServer",
	old:  "answered >= Founders(len(readings)) && !wasMarked)",
	mut:  "answered >= Founders(len(readings)) && (wasMarked || !wasMarked))",
}, {
	name: "quorum: a server that forgot joins without a wait",
	by:   "TestAServerWithoutMemoryDoesNotCountHoweverYoungTheOthersAre",
	old:  "\t\tdefault:\n\t\t\tnext.Born = today\n",
	mut:  "\t\tdefault:\n\t\t\tnext.Born = today - 2*longest\n",
}, {
	name: "quorum: a server that a comparison did not reach counts as new",
	by:   "TestAServerThatAComparisonDidNotReachGoesOn",
	old:  "if most == n && n < Of(len(readings)) {",
	mut:  "if most == n && n < 0 {",
}, {
	name: "quorum: a server left behind is heard however inexact its word is",
	by:   "TestAServerLeftBehindConfirmsNoStep",
	old:  "agree(now, longest, readings, of)",
	mut:  "agree(now, forever, readings, of)",
}, {
	name: "quorum: servers left behind overrule the current ones",
	by:   "TestAServerLeftBehindConfirmsNoStep",
	old:  "all >= Of(len(readings)) && containsAll(who, current) {",
	mut:  "all >= Of(len(readings)) && len(who) == len(current) {",
}}), in("internal/majority/clock.go", quorum, []mutant{{
	name: "quorum: a server that was away joins although only a few agree",
	by:   "TestAServerWhoseClockWasSetForwardDoesNotGrantASecondTime",
	old:  "case of[i] && !current[i] && most >= Of(len(readings)) && at.low <= common.high:",
	mut:  "case of[i] && !current[i] && at.low <= common.high:",
}, {
	name: "quorum: an old comparison has a word on clocks",
	by:   "TestAServerWhoseClockWasSetForwardDoesNotGrantASecondTime",
	old:  "r.Mark.At >= last-longest; current[i] {",
	mut:  "r.Mark.At >= last-longest || of[i]; current[i] {",
}}), in("quorum/check.go", quorum, []mutant{{
	name: "less than a majority is enough for a check",
	by:   "TestACheckNeedsAMajorityAndKnowsServersWithAnotherToken",
	old:  "	case live >= s.majority:\n		return answer\n",
	mut:  "	case live > 0:\n		return answer\n",
}}), in("quorum/token.go", quorum, []mutant{{
	name: "quorum: a grant is believed when one server has its token",
	by:   "TestAServerThatForgetsInTheFirstSecondsOfAQuorumDoesNotGrantASecondTime",
	old:  "if ok >= acq.majority {",
	mut:  "if ok >= 1 {",
}, {
	name: "quorum: wrong marks are not corrected",
	by:   "TestAWrongMarkIsCorrectedAtOnce",
	old:  "\t\tacq.states.noteWrongMarks(why)\n",
	mut:  "\t\t_ = why\n",
}, {
	name: "quorum: one server has two votes in a grant",
	by:   "TestOneServerHasOneVoteAlsoForReaders",
	old:  "return acq.states.sameServer == nil, acq.states.sameServer",
	mut:  "return true, nil",
}, {
	name: "quorum: a grant is believed when its lease is over",
	by:   "TestAGrantThatIsOverBeforeItIsBelievedIsNone",
	old:  "case leasetime.Deadline(acq.countsFrom, acq.ttl) <= now:",
	mut:  "case leasetime.Deadline(acq.countsFrom, acq.ttl) <= 0*now:",
}}), in("quorum/node.go", quorum, []mutant{{
	name: "quorum: a late poll loses its position",
	by:   "TestALatePollKeepsThePosition",
	old:  "	return errors.Is(err, context.DeadlineExceeded) && !isRefusal(err) && !n.isSilent()\n",
	mut:  "	return errors.Is(err, context.DeadlineExceeded) && isRefusal(err) && !n.isSilent()\n",
}}), in("quorum/owed.go", quorum, []mutant{{
	name: "quorum: a cancel that found nothing is not sent again",
	by:   "TestLateAnswersCostNoLeaseWhereEveryServerIsNeeded",
	old:  "if answer != \"none\" {",
	mut:  "if answer != \"nothing\" {",
}, {
	name: "quorum: of several late requests one is cancelled",
	by:   "TestAcquiresThatArriveAfterTheReleaseAreCancelled",
	old:  "return p, p.times <= 0",
	mut:  "return p, answer != \"none\"",
}, {
	name: "quorum: cancels that are added while others are sent are lost",
	by:   "TestACancelThatIsAddedWhileOthersAreSentIsSent",
	old:  "o.cancels = append(remaining, o.cancels...); len",
	mut:  "o.cancels = remaining; len",
}}), in("internal/majority/majority.go", unit("./internal/majority"), []mutant{{
	name: "quorum: the greatest token drawn is the lease's though few have it",
	by:   "TestTokenIsAboveAllThatWereDrawn",
	old:  "return greatest + 1",
	mut:  "return greatest",
}, {
	name: "quorum: half of the servers are a majority",
	by:   "TestTwoMajoritiesShareAServer",
	old:  "func Of(n int) int { return n/2 + 1 }",
	mut:  "func Of(n int) int { return (n + 1) / 2 }",
}, {
	name: "quorum: a server that failed stays coordinator",
	by:   "TestDecide",
	old:  "func(i int) bool { return replies[i] != Failed })",
	mut:  "func(i int) bool { return replies[i] != Failed || true })",
}, {
	name: "quorum: a split between two is not seen",
	by:   "TestDecide",
	old:  "case granted+open < m:",
	mut:  "case granted+open < 0:",
}, {
	name: "quorum: a server that does not count decides with the others",
	by:   "TestDecide",
	old:  "if !counts[i] || r == Failed {",
	mut:  "if !counts[i] && false || r == Failed {",
}, {
	name: "quorum: the fastest clock is the right one",
	by:   "TestTheClockIsARightOneOrBehindIt",
	old:  "reachedBy(known, most+1), true",
	mut:  "reachedBy(known, 1), true",
}, {
	name: "quorum: silence keeps a lease",
	by:   "TestTally",
	old:  "case held >= m:",
	mut:  "case held+silent >= m:",
}}), in("quorum/renew.go", quorum, []mutant{{
	name: "quorum: a server vouches for a time in which it did not hold",
	by:   "TestAServerThatWasAskedLaterVouchesFromTheSecondRenewalOn",
	old:  "if ren.attempts[i].hasHeld(ren.since) {",
	mut:  "if ren.attempts[i].holds {",
}, {
	name: "quorum: a lease is not restored on a server that did not answer",
	by:   "TestAServerThatDidNotAnswerJoinsTheLease",
	old:  "; (!na.holds || na.heldSince < start) && len(na.gate) == 0 {",
	mut:  "; na.holds && na.heldSince < start && len(na.gate) == 0 {",
}, {
	name: "quorum: a restored lease leaves the old attempt on the server",
	by:   "TestAClientThatWantsSeveralLocksGetsThem",
	old:  "_, _ = before.cancel(timeout) // a failed cancel becomes a pending one",
	mut:  "_ = before",
}, {
	name: "quorum: a lease is not restored while too few servers answer",
	by:   "TestTwoSilentServersCostNoLeaseWhenOthersCameBackJustBefore",
	old:  "one.restoreMissing(start, timeout)",
	mut:  "_ = one.restoreMissing",
}, {
	name: "quorum: renewals do not keep the marks",
	by:   "TestRenewalsKeepTheMarks",
	old:  "s.statesOf(p).refresh() //",
	mut:  "_ = s.statesOf(p) //",
}, {
	name: "quorum: a renewal does not count from its start",
	by:   "TestAServerThatDidNotAnswerJoinsTheLease",
	old:  "acq.renewedAt = max(acq.renewedAt, start)",
	mut:  "acq.renewedAt = max(acq.renewedAt, 0*start)",
}, {
	name: "quorum: a lease is restored beside a request that is under way",
	by:   "TestALeaseIsNotRestoredBesideARequestThatIsUnderWay",
	old:  "(!na.holds || na.heldSince < start) && len(na.gate) == 0 {",
	mut:  "!na.holds || na.heldSince < start {",
}, {
	name: "quorum: a renewal does not move the time from which a hold counts",
	by:   "TestAHoldCountsFromItsLastRenewal",
	old:  "na.countsFrom, na.unconfirmed = max(na.countsFrom, start), false",
	mut:  "na.unconfirmed = false",
}, {
	name: "quorum: a vote counts for the attempt that came later",
	by:   "TestAVoteIsOfTheAttemptThatWasAsked",
	old:  "\t\tif na != ren.attempts[i] {\n\t\t\tcontinue // replaced",
	mut:  "\t\tif na != ren.attempts[i] && na == nil {\n\t\t\tcontinue // replaced",
}, {
	name: "quorum: a lease is extended by the TTL of another one",
	by:   "TestARenewalIsBoundedByItsShortestLease",
	old:  "wire.LeaseWord(id, leases[l].ttlMS, leases[l].owner, ttlMS)",
	mut:  "wire.LeaseWord(id, ttlMS, leases[l].owner, ttlMS)",
}}), in("quorum/outcome.go", quorum, []mutant{{
	name: "quorum: silent servers fill no gap",
	by:   "TestTwoSilentServersCostNoLeaseWhenOthersJoinedJustBefore",
	old:  "if found != majority.Unknown || bids == nil ||",
	mut:  "if found != majority.Renewed || bids == nil ||",
}, {
	name: "quorum: a server that was silent for a lease fills a gap",
	by:   "TestAServerThatIsSilentForALeaseDoesNotVouch",
	old:  " && bids[i].hasHeld(since) && bids[i].heldUntil >= t\n",
	mut:  " && bids[i].hasHeld(since) && bids[i].heldUntil >= 0*t\n",
}, {
	name: "quorum: an eviction is outlived with the help of silent servers",
	by:   "TestSilentServersDoNotOutliveAnEviction",
	old:  " || slices.Contains(votes, majority.Evicted) {",
	mut:  " || slices.Contains(votes, majority.Evicted) && false {",
}, {
	name: "quorum: a grant that was never heard of vouches for all of the time",
	by:   "TestWhenSilentServersFillAGap",
	old:  "case vote == majority.TooRecent && bids[i].holds:",
	mut:  "case vote == majority.TooRecent:",
}}), in("quorum/marktable.go", quorum, []mutant{{
	name: "quorum: a probation ends as if the survey had taken no time",
	by:   "TestAProbationDoesNotEndEarlierAfterASlowSurvey",
	old:  "m[i].setProbation(now, now+s.Left[i], s.Standings[i])",
	mut:  "m[i].setProbation(now, since+s.Left[i], s.Standings[i])",
}, {
	name: "quorum: one server under two names has two votes",
	by:   "TestTheSameServerIsForgottenOnceTheMistakeIsCorrected",
	old:  "return other.OK && other.askedAt >= since && other.RunID == reading.RunID",
	mut:  "return false && other.OK && other.askedAt >= since && other.RunID == reading.RunID",
}, {
	name: "quorum: an older reading replaces a newer one",
	by:   "TestAnOlderReadingDoesNotReplaceANewerOne",
	old:  "if m[i].askedAt > sent {",
	mut:  "if m[i].askedAt > sent && false {",
}, {
	name: "quorum: a new reading ends a probation",
	by:   "TestANewReadingDoesNotEndAProbation",
	old:  "askedAt: sent, countsFrom: m[i].countsFrom,",
	mut:  "askedAt: sent,",
}, {
	name: "quorum: a server that was not read is on probation no more",
	by:   "TestAServerThatWasNotReadStaysOnProbation",
	old:  "if s.Standings[i] == majority.Unread {",
	mut:  "if s.Standings[i] == majority.Unread && false {",
}}), in("quorum/nodeattempt.go", quorum, []mutant{{
	name: "quorum: what a server may yet grant is not cancelled",
	by:   "TestAFailedCancelIsSentAgainLater",
	old:  "na.cancelLater(1, max(until, acq.now()+timeout))",
	mut:  "_ = until",
}, {
	name: "quorum: a hold counts from the server's answer",
	by:   "TestAHoldCountsFromItsRequest",
	old:  "na.noteAnswer(a, sent, err)",
	mut:  "na.noteAnswer(a, acq.now(), err)",
}, {
	name: "quorum: a server is told another one's token at the release",
	by:   "TestEachServerIsToldItsOwnToken",
	old:  "own := append([]string{na.id, wire.Number(token)}, args[2:]...)",
	mut:  "own := append([]string{na.id, args[1]}, args[2:]...)\n\t_ = token",
}, {
	name: "quorum: a release does not wait for the token that is being written",
	by:   "TestAReleaseWaitsForTheTokenThatIsBeingWritten",
	old:  "\tna.gate <- struct{}{} // a request that is under way there ends first\n",
	mut:  "\tgo func(gate chan struct{}) { gate <- struct{}{} }(na.gate)\n",
}}), in("quorum/errors.go", quorum, []mutant{{
	name: "quorum: a cancel that a node refuses for a while is forgotten",
	by:   "TestACancelThatIsRefusedForAWhileIsSentAgain",
	old:  "errors.As(err, &r) && !r.Transient()",
	mut:  "errors.As(err, &r)",
}}), in("quorum/acquire.go", quorum, []mutant{{
	name: "quorum: an attempt that joins a queue keeps the other servers",
	by:   "TestLateAnswersCostNoLeaseWhereEveryServerIsNeeded",
	old:  "\t\tif i != r.coordinator {\n\t\t\tr.replace(i, timeout)",
	mut:  "\t\tif i != r.coordinator && false {\n\t\t\tr.replace(i, timeout)",
}}), in("quorum/wait.go", quorum, []mutant{{
	name: "quorum: no head of a queue makes way for another",
	by:   "TestWaitersOfSeveralCoordinatorsMakeWay",
	old:  "\tif can >= acq.majority {\n",
	mut:  "\tif can >= acq.majority || can < acq.majority {\n",
}, {
	name: "quorum: an attempt that gets no majority keeps what it has",
	by:   "TestAPushThatNobodyConfirmsDoesNotCount",
	old:  "\tif current {\n\t\tacq.cancelRound(r, timeout)",
	mut:  "\tif current && acq == nil {\n\t\tacq.cancelRound(r, timeout)",
}, {
	name: "quorum: the rest of a lost majority is extended",
	by:   "TestALateGrantIsNotKeptOnAMinority",
	old:  "\tgone, err := r.mayHold() < acq.majority, ",
	mut:  "	gone, err := false, ",
}, {
	name: "quorum: a pushed grant is not confirmed",
	by:   "TestACoordinatorThatComesBackDoesNotOvertakeTheQueue",
	old:  "\t\ts.life.Go(grantLabel, na.confirm)\n",
	mut:  "\t\t_ = na.confirm\n",
}, {
	name: "quorum: a server's push counts from its arrival",
	by:   "TestAPushedGrantCountsFromTheRequestThatQueuedIt",
	old:  "na.noteGrant(a.Token, a.Waiting, na.askedAt)",
	mut:  "na.noteGrant(a.Token, a.Waiting, s.now())",
}, {
	name: "quorum: a push of an earlier identity counts",
	by:   "TestAfterAServerForgotTheNextRequestHasANewIdentity",
	old:  "!r.live() || r.attempts[i].id != id {",
	mut:  "!r.live() {",
}, {
	name: "quorum: a poll of a lease counts servers that joined later",
	by:   "TestARepeatedPollCountsOnlyServersThatVouch",
	old:  "\tif at == held {\n\t\tcounts = r.confirmed()\n\t}\n",
	mut:  "\t_ = at\n",
}, {
	name: "quorum: a waiter's polls do not keep its acquisition",
	by:   "TestWhatIsAUseOfAnAcquisition",
	old:  "	acq.touch()\n	acq.mu.Lock()\n	at, r := acq.phase",
	mut:  "	acq.mu.Lock()\n	at, r := acq.phase",
}}), in("quorum/coordinator.go", quorum, []mutant{{
	name: "quorum: a waiter behind dead ones does not check the coordinator",
	by:   "TestACoordinatorWithADeadQueueHasNoVeto",
	old:  "last.Left <= acq.cfg.MaxTTL && rand.IntN(last.Place) >= alwaysChecked",
	mut:  "rand.IntN(last.Place) >= 0",
}, {
	name: "quorum: a coordinator that a majority contradicts stays coordinator",
	by:   "TestACoordinatorThatAlwaysSaysHeldHasNoVeto",
	old:  "s.nodes[i].isSilent() || s.isContradicted(key, i)",
	mut:  "s.nodes[i].isSilent()",
}}), in("quorum/contradictions.go", quorum, []mutant{{
	name: "quorum: a coordinator that comes back overtakes the queue",
	by:   "TestACoordinatorThatComesBackDoesNotOvertakeTheQueue",
	old:  "\t\tif most >= m {",
	mut:  "\t\tif most >= 2*m {",
}}), in("quorum/acquireall.go", quorum, []mutant{{
	name: "quorum: of several locks some are kept",
	by:   "TestSeveralLocksAreAcquiredAllOrNone",
	old:  "if err == nil || isRefusal(err) {",
	mut:  "if err == nil && isRefusal(err) {",
}}), in("script/mark_server.lua", transcripts, []mutant{{
	name: "quorum: a mark that the disk brought back is believed",
	by:   "TestAMarkIsOfOneRunOfItsServer",
	old:  "(known == run or known == '-') and string.match(got[2] or '', '^%S+$') or '-'",
	mut:  "string.match(got[2] or '', '^%S+$') or '-'",
}, {
	name: "quorum: a mark is written over another client's",
	by:   "TestTranscriptsOnServer",
	old:  "if new and old == mark then",
	mut:  "if new then",
}}), in("script/raise_fence.lua", transcripts, []mutant{{
	name: "quorum: a mark that the disk brought back vouches for a token",
	by:   "TestAMarkIsOfOneRunOfItsServer",
	old:  "(known == run or known == '-') and string.match(got[2] or '', '^%S+$') or '-'",
	mut:  "string.match(got[2] or '', '^%S+$') or '-'",
}, {
	name: "quorum: a token is raised for an attempt that no longer holds",
	by:   "TestTranscriptsOnServer",
	old:  "  if expiry <= now then return 'gone' end\n",
	mut:  "",
}, {
	name: "quorum: a token is lowered",
	by:   "TestTranscriptsOnServer",
	old:  "  if token > fence then\n",
	mut:  "  if token then\n",
}, {
	name: "quorum: a reader's token is raised beyond its lease",
	by:   "TestTranscriptsOnServer",
	old:  "if not h or h[2] <= now then return 'gone' end\n",
	mut:  "if not h then return 'gone' end\n",
}}), in("quorum/acquisition.go", quorum, []mutant{{
	name: "quorum: live acquisitions are swept",
	by:   "TestLiveAcquisitionsAreNotSwept",
	old:  "> s.cfg.MaxTTL+leasetime.WaiterTTL(s.cfg.MaxTTL) {",
	mut:  "> leasetime.WaiterTTL(s.cfg.MaxTTL) {",
}}), in("quorum/subscription.go", quorum, []mutant{{
	name: "quorum: waiters are not told that a server's subscription stands",
	by:   "TestWaitersPollWhenANodesSubscriptionStands",
	old:  "\t\t\tif try > 0 {\n",
	mut:  "\t\t\tif try < 0 {\n",
}}), in("internal/pushes/listeners.go", quorum, []mutant{{
	name: "quorum: a subscription that ends takes out the others of its channel",
	by:   "TestASubscriptionEndsAlone",
	old:  "bool { return other == l })\n",
	mut:  "bool { return other != l })\n",
}}))

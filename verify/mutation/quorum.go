package main

import "slices"

// inQuorum are those of locks over several servers.
var inQuorum = slices.Concat(in("quorum/round.go", by{uniting}, []mutant{{
	name: "quorum: a server that is ahead draws the tokens",
	old:  "return replies, majority.WithoutAhead(replies, counts, r.tokensAhead())",
	mut:  "return replies, counts",
}, {
	name: "quorum: a pushed grant counts for as long as any",
	old:  "na.countsFrom >= r.acq.countsFrom && !na.unconfirmed)",
	mut:  "na.countsFrom >= r.acq.countsFrom)",
}, {
	name: "quorum: a hold from before counts with the new lease",
	old:  "(!na.holds || na.countsFrom >= r.acq.countsFrom && !na.unconfirmed)",
	mut:  "(!na.holds || !na.unconfirmed)",
}, {
	name: "quorum: a server that was silent for a lease may hold",
	old:  " && now-na.countsFrom < r.acq.ttl {\n",
	mut:  " && now >= 0 {\n",
}}), in("internal/majority/clock.go", by{counting, uniting}, []mutant{{
	name: "quorum: a server that has lost its memory counts at once",
	old:  "s.Standings[i], s.Left[i] = OnProbation, left",
	mut:  "s.Left[i] = 0",
}, {
	name: "quorum: a new quorum begins at once with any majority",
	old:  "func Founders(n int) int { return (n+Of(n)-1)/2 + 1 }",
	mut:  "func Founders(n int) int { return Of(n) }",
}, {
	name: "quorum: clocks an hour apart agree",
	old:  "of[j] && s.low <= at && at <= s.high {",
	mut:  "of[j] && s.low <= at && at <= s.high+time.Hour {",
}, {
	name: "quorum: where clocks differ the first to agree is believed",
	old:  "if most < n && most < Of(len(readings)) {",
	mut:  "if most < n && most < 0 {",
}, {
	name: "quorum: a minority begins a quorum",
	old:  "if answered < Of(len(readings)) {",
	mut:  "if answered < 1 {",
}, {
	name: "quorum: a clock that was set forward counts as one that was set back",
	old:  "case current[i] && at.high < common.low:",
	mut:  "case current[i] && at.high != common.low:",
}, {
	name: "quorum: a grant is vouched for where too few clocks agree",
	old:  "case most < Of(len(readings)):\n\t\t\ts.Standings",
	mut:  "case most < 1:\n\t\t\ts.Standings",
}, {
	name: "quorum: a grant is vouched for by a clock that was set",
	old:  "\t\tcase !in[i]:\n\t\t\ts.Standings",
	mut:  "\t\tcase !in[i] && false:\n\t\t\ts.Standings",
}, {
	name: "quorum: a comparison never gets old",
	old:  "apart(now+common.middle(), r.Mark.At) > longest:",
	mut:  "apart(now+common.middle(), r.Mark.At) > 1000*longest:",
}, {
	name: "quorum: every new quorum begins at once",
	old:  "\tif atOnce {",
	mut:  "\tif atOnce || true {",
}, {
	name: "quorum: a quorum that begins again keeps its number",
	old:  "Mark{Epoch: quorum.Epoch + 1}",
	mut:  "Mark{Epoch: quorum.Epoch}",
}, {
	name: "quorum: after all clocks were set back servers are of the future",
	old:  "next.Born = min(next.Born, today)",
	mut:  "next.Born = max(next.Born, min(next.Born, today))",
}, {
	name: "quorum: clocks may go apart by all of the time",
	old:  "return apart(age, 0)/50 +",
	mut:  "return apart(age, 0) +",
}, {
	name: "quorum: clocks are compared once",
	old:  "return oldest >= fresh && worst <= Tolerance(fresh) || oldest >= longest/4",
	mut:  "return oldest < 0 && worst <= Tolerance(fresh)",
}, {
	name: "quorum: a server that forgot joins without a wait",
	old:  "\t\tdefault:\n\t\t\tnext.Born = today\n",
	mut:  "\t\tdefault:\n\t\t\tnext.Born = today - 2*longest\n",
}, {
	name: "quorum: a server that a comparison did not reach counts as new",
	old:  "if most == n && n < Of(len(readings)) {",
	mut:  "if most == n && n < 0 {",
}}), in("internal/majority/clock.go", by{uniting}, []mutant{{
	name: "quorum: a server that was away joins although only a few agree",
	old:  "case of[i] && !current[i] && most >= Of(len(readings)) && at.low <= common.high:",
	mut:  "case of[i] && !current[i] && at.low <= common.high:",
}, {
	name: "quorum: an old comparison has a word on clocks",
	old:  "r.Mark.At >= time.Duration(last)-longest; current[i] {",
	mut:  "r.Mark.At >= time.Duration(last)-longest || of[i]; current[i] {",
}}), in("internal/majority/clock.go", by{counting}, []mutant{{
	name: "quorum: a server left behind is heard however inexact its word is",
	old:  "agree(now, longest, readings, of)",
	mut:  "agree(now, forever, readings, of)",
}}), in("quorum/ask.go", by{uniting}, []mutant{{
	name: "quorum: a minority says who holds a lock",
	old:  "	if len(answers) < s.majority {\n",
	mut:  "	if len(answers) == 0 {\n",
}, {
	name: "quorum: an inspection waits for a silent server",
	old:  "(len(answers) < s.majority || !s.onlySilentLeft(heard))",
	mut:  "(len(answers) < s.majority || len(heard) > 0)",
}}), in("quorum/token.go", by{uniting}, []mutant{{
	name: "quorum: a grant is believed when one server has its token",
	old:  "if ok >= acq.s.majority {",
	mut:  "if ok >= 1 {",
}, {
	name: "quorum: wrong marks are not corrected",
	old:  "\t\tacq.states.noteWrongMarks(why)\n",
	mut:  "\t\t_ = why\n",
}, {
	name: "quorum: one server has two votes in a grant",
	old:  "return acq.states.sameServer == nil, acq.states.sameServer",
	mut:  "return true, nil",
}}), in("quorum/node.go", by{uniting}, []mutant{{
	name: "quorum: nobody notices how late servers answer",
	old:  "n.pace.Store(int64(majority.Pace(time.Duration(n.pace.Load()), took)))",
	mut:  "n.pace.Store(int64(majority.Pace(0, 0*took)))",
}, {
	name: "quorum: one late answer makes a server silent",
	old:  "n.answeredAt > sent {",
	mut:  "n.answeredAt > 2*sent {",
}}), in("internal/window/window.go", by{uniting}, []mutant{{
	name: "quorum: a late server gets every request",
	old:  "	case o == Late:\n		w.limit = max(w.under/2, least)\n",
	mut:  "	case o == Late:\n		w.limit = 0\n",
}}), in("quorum/window.go", by{uniting}, []mutant{{
	name: "quorum: what nobody waits for is sent to a late server",
	old:  "	case <-ended:\n		err = errEnded\n",
	mut:  "",
}}), in("quorum/node.go", by{uniting}, []mutant{{
	name: "quorum: a request that was not sent may have run",
	old:  "	store.ErrNotSent, context.DeadlineExceeded)",
	mut:  "	errEnded, context.DeadlineExceeded)",
}, {
	name: "quorum: a late poll loses its position",
	old:  "	return errors.Is(err, context.DeadlineExceeded) && !isRefusal(err) && !n.isSilent()\n",
	mut:  "	return errors.Is(err, context.DeadlineExceeded) && isRefusal(err) && !n.isSilent()\n",
}}), in("quorum/subscription.go", by{uniting}, []mutant{{
	name: "quorum: a server that answers every second request is polled without a pause",
	old:  "	r.inARow++\n",
	mut:  "",
}}), in("internal/majority/majority.go", by{counting, uniting}, []mutant{{
	name: "quorum: the greatest token drawn is the lease's though few have it",
	old:  "return greatest + 1",
	mut:  "return greatest",
}, {
	name: "quorum: half of the servers are a majority",
	old:  "func Of(n int) int { return n/2 + 1 }",
	mut:  "func Of(n int) int { return (n + 1) / 2 }",
}, {
	name: "quorum: a server that failed stays coordinator",
	old:  "func(i int) bool { return replies[i] != Failed })",
	mut:  "func(i int) bool { return replies[i] != Failed || true })",
}, {
	name: "quorum: a split between two is not seen",
	old:  "case granted+open < m:",
	mut:  "case granted+open < 0:",
}, {
	name: "quorum: a server that does not count decides with the others",
	old:  "if !counts[i] || r == Failed {",
	mut:  "if !counts[i] && false || r == Failed {",
}, {
	name: "quorum: the fastest clock is the right one",
	old:  "reachedBy(known, most+1), true",
	mut:  "reachedBy(known, 1), true",
}, {
	name: "quorum: a server that is ahead is left out where it is needed",
	old:  "if can < Of(len(replies)) {",
	mut:  "if can < 0 {",
}, {
	name: "quorum: silence keeps a lease",
	old:  "case held >= m:",
	mut:  "case held+silent >= m:",
}, {
	name: "quorum: the holder does not learn of an eviction",
	old:  "case evicted:\n\t\treturn Ended",
	mut:  "case evicted:\n\t\treturn Lost",
}, {
	name: "quorum: a record is as its luckiest server has it",
	old:  "return reachedBy(values, m)",
	mut:  "return reachedBy(values, 1)",
}, {
	name: "quorum: one silent server takes a whole lease",
	old:  "timeout = min(timeout, max(ttl/10, min(3*answers, ttl/4)))",
	mut:  "timeout = min(timeout, max(ttl/10, min(3*answers, ttl)))",
}, {
	name: "quorum: a limit is a tenth of the lease, however late most servers answer",
	old:  "max(ttl/10, min(3*answers, ttl/4))",
	mut:  "ttl/10",
}, {
	name: "quorum: one server that is late makes all limits longer",
	old:  "return reachedBy(paces, len(paces)-Of(len(paces))+1)",
	mut:  "return reachedBy(paces, 1)",
}, {
	name: "quorum: a majority waits for the last server's timeout",
	old:  "return min(2*took+2*time.Millisecond, timeout)",
	mut:  "return timeout",
}, {
	name: "quorum: what a majority denies is still possible",
	old:  "return yes >= m, n-no >= m",
	mut:  "return yes >= m, n-no >= 0*m",
}, {
	name: "quorum: all locks have the same coordinator",
	old:  "order[i] = (first + i) % n",
	mut:  "order[i] = (0*first + i) % n",
}}), in("quorum/renew.go", by{uniting}, []mutant{{
	name: "quorum: a server vouches for a time in which it did not hold",
	old:  "if na := ren.attempts[i]; na.holds && na.heldSince <= ren.since {",
	mut:  "if na := ren.attempts[i]; na.holds {",
}, {
	name: "quorum: a lease is not restored on a server that did not answer",
	old:  "; (!na.holds || na.heldSince < start) && len(na.gate) == 0 {",
	mut:  "; na.holds && na.heldSince < start && len(na.gate) == 0 {",
}, {
	name: "quorum: a restored lease leaves the old attempt on the server",
	old:  "_, _ = before.cancel(timeout) // a failed cancel becomes a pending one",
	mut:  "_ = before",
}, {
	name: "quorum: silent servers fill no gap",
	old:  "if found != majority.Unknown || ren.attempts == nil ||",
	mut:  "if found != majority.Renewed || ren.attempts == nil ||",
}, {
	name: "quorum: a server that was silent for a lease fills a gap",
	old:  " && na.heldSince <= ren.since && na.heldUntil >= t\n",
	mut:  " && na.heldSince <= ren.since && na.heldUntil >= 0*t\n",
}, {
	name: "quorum: a lease is not restored while too few servers answer",
	old:  "one.restoreMissing(start, timeout)",
	mut:  "_ = one.restoreMissing",
}, {
	name: "quorum: renewals do not keep the marks",
	old:  "s.statesOf(p).refresh() //",
	mut:  "_ = s.statesOf(p) //",
}, {
	name: "quorum: a renewal does not count from its start",
	old:  "acq.renewedAt = max(acq.renewedAt, start)",
	mut:  "acq.renewedAt = max(acq.renewedAt, 0*start)",
}}), in("quorum/marks.go", by{uniting}, []mutant{{
	name: "quorum: one server under two names has two votes",
	old:  "return other.OK && other.askedAt >= since && other.RunID == one.RunID",
	mut:  "return false && other.OK && other.askedAt >= since && other.RunID == one.RunID",
}}), in("quorum/nodeattempt.go", by{uniting}, []mutant{{
	name: "quorum: what a server may yet grant is not cancelled",
	old:  "na.cancelLater(1, max(until, acq.s.now()+timeout))",
	mut:  "_ = until",
}, {
	name: "quorum: a request that arrives after the release is not cancelled",
	old:  "if acq.s.now() < na.unansweredUntil {",
	mut:  "if acq.s.now() < 0*na.unansweredUntil {",
}, {
	name: "quorum: a request without an answer is not cancelled",
	old:  "nothing := !na.holds && !na.queued && acq.s.now() >= na.unansweredUntil",
	mut:  "nothing := !na.holds && !na.queued",
}}), in("internal/majority/record.go", by{counting, uniting}, []mutant{{
	name: "quorum: a hold on one server is a hold of the lock",
	old:  "if len(h.tokens) < Of(n) {",
	mut:  "if len(h.tokens) < 1 {",
}}), in("quorum/errors.go", by{uniting}, []mutant{{
	name: "quorum: a refusal by a majority names one server",
	old:  "strings.Join(who, \", \")",
	mut:  "who[len(who)-1]",
}}), in("quorum/clients.go", by{uniting}, []mutant{{
	name: "quorum: of several servers that lack permissions, one counts",
	old:  "append(commands, missing...), append(nodes, s.nodes[i].name())",
	mut:  "missing, []string{s.nodes[i].name()}",
}}), in("internal/request/sender.go", by{uniting}, []mutant{{
	name: "quorum: a refusal for lack of a permission names no server",
	old:  "&PermissionError{Err: err,",
	mut:  "&PermissionError{Err: Refusal(err),",
}}), in("quorum/errors.go", by{uniting}, []mutant{{
	name: "quorum: servers that do not count yet are to be started",
	old:  "		if errors.As(err, &probation) {",
	mut:  "		if false && errors.As(err, &probation) {",
}, {
	name: "quorum: a cancel that a node refuses for a while is forgotten",
	old:  "errors.As(err, &r) && !r.Transient()",
	mut:  "errors.As(err, &r)",
}}), in("quorum/acquire.go", by{uniting}, []mutant{{
	name: "quorum: an attempt that joins a queue keeps the other servers",
	old:  "\t\tif i != r.coordinator {\n\t\t\tr.replace(i, timeout)",
	mut:  "\t\tif i != r.coordinator && false {\n\t\t\tr.replace(i, timeout)",
}}), in("quorum/wait.go", by{uniting}, []mutant{{
	name: "quorum: no head of a queue makes way for another",
	old:  "\tif can >= acq.s.majority {\n",
	mut:  "\tif can >= acq.s.majority || can < acq.s.majority {\n",
}, {
	name: "quorum: an attempt that gets no majority keeps what it has",
	old:  "\tif current {\n\t\tacq.cancelRound(r, timeout)",
	mut:  "\tif current && acq == nil {\n\t\tacq.cancelRound(r, timeout)",
}, {
	name: "quorum: the rest of a lost majority is extended",
	old:  "\tgone, err := r.mayHold() < acq.s.majority, ",
	mut:  "	gone, err := false, ",
}, {
	name: "quorum: a pushed grant is not confirmed",
	old:  "\t\ts.life.Go(grantLabel, na.confirm)\n",
	mut:  "\t\t_ = na.confirm\n",
}}), in("quorum/node.go", by{uniting}, []mutant{{
	name: "quorum: a cancel that found nothing is not sent again",
	old:  "if answer != \"none\" {",
	mut:  "if answer != \"nothing\" {",
}, {
	name: "quorum: of several late requests one is cancelled",
	old:  "if err == nil && pending.times > 0 {",
	mut:  "if answer == \"none\" {",
}, {
	name: "quorum: a late queue entry is kept when it is granted",
	old:  "	if !known {\n		return // its cancel",
	mut:  "	if known || !known {\n		return // its cancel",
}}), in("quorum/coordinator.go", by{uniting}, []mutant{{
	name: "quorum: a waiter behind dead ones does not check the coordinator",
	old:  "last.Left <= acq.s.cfg.MaxTTL && rand.IntN(last.Place) >= alwaysChecked",
	mut:  "rand.IntN(last.Place) >= 0",
}, {
	name: "quorum: a coordinator that a majority contradicts stays coordinator",
	old:  "s.nodes[i].isSilent() || s.isContradicted(key, i)",
	mut:  "s.nodes[i].isSilent()",
}, {
	name: "quorum: a momentary contradiction replaces the coordinator",
	old:  "now-a.since >= contradictionTime(ttl)",
	mut:  "now-a.since >= 0*contradictionTime(ttl)",
}, {
	name: "quorum: a client forgets a wrong coordinator while it learns of another",
	old:  "\t\t\tacq.s.keepContradiction(acq.key, i, h.Attempt)\n",
	mut:  "\t\t\t_, _ = i, h\n",
}, {
	name: "quorum: a coordinator that comes back overtakes the queue",
	old:  "\t\tif most >= m {",
	mut:  "\t\tif most >= 2*m {",
}}), in("quorum/acquireall.go", by{uniting}, []mutant{{
	name: "quorum: of several locks some are kept",
	old:  "if err == nil || isRefusal(err) {",
	mut:  "if err == nil && isRefusal(err) {",
}}), in("script/mark_server.lua", by{transcripts}, []mutant{{
	name: "quorum: a mark that the disk brought back is believed",
	old:  "got[1] == run and got[2] or '-'",
	mut:  "got[2] or '-'",
}, {
	name: "quorum: a mark is written over another client's",
	old:  "if new and old == mark then",
	mut:  "if new then",
}}), in("script/raise_fence.lua", by{transcripts}, []mutant{{
	name: "quorum: a mark that the disk brought back vouches for a token",
	old:  "got[1] == run and got[2] or '-'",
	mut:  "got[2] or '-'",
}, {
	name: "quorum: a token is raised for an attempt that no longer holds",
	old:  "  if expiry <= now then return 'gone' end\n",
	mut:  "",
}, {
	name: "quorum: a token is lowered",
	old:  "  if token > fence then\n",
	mut:  "  if token then\n",
}, {
	name: "quorum: a reader's token is raised beyond its lease",
	old:  "if h[2] <= now then return 'gone' end\n",
	mut:  "",
}}))

package main

import "slices"

// What judges the connection to a server, and calls that wait for one.
var (
	stopping   = check{"bubble tests", ".", []string{"-run=TestAnInterruptedRequestNamesTheServer", "."}}
	outlasting = check{"bubble tests", ".", []string{
		"-run=EndOfAWait|Outlasts|Unreachable|Tries|ATryOf|WillNotPass|CallersContext|" +
			"NotSent|Unknown|Entry|PeriodicJob|GivenMoreTime", ".",
	}}
	closing = check{"bubble tests", ".", []string{"-run=Close|ReleaseIsBounded|TwoResign", "."}}
	nilling = check{"bubble tests", ".", []string{"-run=Nil|NoMethod|MissingFunction|BadInput", "."}}
	goRedis = check{"store tests", "store/goredis", []string{
		"-run=NotSent|TriesAt|NoClient|FullPool|ShortLocks|CloseLeaves", ".",
	}}
	rueidis = check{"store tests", "store/rueidis", []string{
		"-run=NotSent|TriesAt|NoClient|ClosedClient|FullPool|CloseLeaves", ".",
	}}
)

// inConnections are those of the adapters, and of calls while a server is away.
var inConnections = slices.Concat(in("wait.go", by{outlasting}, []mutant{{
	name: "a call that waits fails with the first failure",
	old:  "	if r.try || !request.Transient(err) || request.Ended",
	mut:  "	if true || !request.Transient(err) || request.Ended",
}, {
	name: "a try waits for the server",
	old:  "	if r.try || !request.Transient(err) || request.Ended",
	mut:  "	if r.last != nil && r.try || !request.Transient(err) || request.Ended",
}, {
	name: "a call that waits tries again what is refused for good",
	old:  "	if r.try || !request.Transient(err) || request.Ended",
	mut:  "	if r.try || request.Ended",
}, {
	name: "the end of a wait returns the error of the last request",
	old:  "	if err == nil || !waitOver(ctx, parent) ||\n",
	mut:  "	if true || !waitOver(ctx, parent) ||\n",
}, {
	name: "the end of the caller's context is told as the end of the wait",
	old:  "	if request.Ended(ctx) == nil || request.Ended(parent) != nil {\n",
	mut:  "	if request.Ended(ctx) == nil {\n",
}, {
	name: "the end of a wait does not name the holder",
	old:  "	if told.Err == nil {\n		readHolder(parent, lk, told)\n	}\n",
	mut:  "",
}, {
	name: "the end of a wait does not say why the server was unreachable",
	old:  "		told.Err = stopped.last\n",
	mut:  "		told.Err = nil\n",
}, {
	name: "tries that have ended are an unknown outcome",
	old:  "		return failed.cause\n",
	mut:  "		return failed\n",
}}), in("acquire.go", by{stopping}, []mutant{{
	name: "a request that the end of the context stopped names no server",
	old:  "cmp.Or(request.Interrupted(err), retry.silent)",
	mut:  "cmp.Or(\"\", retry.silent)",
}, {
	name: "the second attempt of a call does not know which server is silent",
	old:  "cmp.Or(request.Interrupted(err), retry.silent)",
	mut:  "cmp.Or(request.Interrupted(err), \"\")",
}}), in("acquire.go", by{outlasting}, []mutant{{
	name: "tries that could not be made end the trying",
	old:  "!known && !isTransient(lk.client, err) ||",
	mut:  "!known ||",
}, {
	name: "what was not sent is undone",
	old:  "	if at.needsCancel {\n		at.cancel()\n	}\n	end := request.Ended(ctx)\n",
	mut:  "	at.cancel()\n	end := request.Ended(ctx)\n",
}, {
	name: "a reader that waits does not outlast the server",
	old:  "	if held := heldIn(err); (held != nil || isTransient(lk.client, err)) && !try {\n",
	mut:  "	if held := heldIn(err); held != nil && !try {\n",
}, {
	name: "the second attempt of a call does not know why the first one failed",
	old:  "	case heldIn(err) == nil:\n		r.last = reason(err)\n",
	mut:  "",
}}), in("internal/request/errors.go", by{outlasting}, []mutant{{
	name: "what was not sent is an unknown outcome",
	old:  "return Refusal(err) != nil || errors.Is(err, store.ErrNotSent) }",
	mut:  "return Refusal(err) != nil }",
}, {
	name: "a time limit of the library shows as the end of a context",
	old:  "	if !IsContextEnd(err) || Ended(ctx) != nil {\n",
	mut:  "	if true || Ended(ctx) != nil {\n",
}}), in("semaphore.go", by{outlasting}, []mutant{{
	name: "permits that are waited for do not outlast the server",
	old:  "		if !errors.Is(err, ErrHeld) && !isTransient(lk.client, err) {\n",
	mut:  "		if !errors.Is(err, ErrHeld) {\n",
}}), in("multi.go", by{outlasting}, []mutant{{
	name: "several locks do not outlast the server",
	old:  "case !errors.Is(err, ErrHeld) && isTransient(m.client, err) && retry.pauseAfter(ctx, err):",
	mut:  "case false && retry.pauseAfter(ctx, err):",
}}), in("periodic.go", by{outlasting}, []mutant{{
	name: "a job that waits does not outlast the server",
	old:  "case err != nil && isTransient(lk.client, err) && retry.pauseAfter(waits, err):",
	mut:  "case false && retry.pauseAfter(waits, err):",
}}), in("client.go", by{closing}, []mutant{{
	name: "Close is bounded by the caller alone",
	old:  "	limit, parent := closeLimit, ctx\n",
	mut:  "	limit, parent := 50*closeLimit, ctx\n",
}, {
	name: "Close releases each lease by itself, a few at a time",
	old:  "		case c.sender.CanBatch() && h.batchable():\n			plain = append(plain, h)\n",
	mut:  "",
}, {
	name: "a second Close does not wait for the first",
	old:  "	select {\n	case <-c.gone:\n		return c.closeErr\n",
	mut:  "	select {\n	default:\n		return nil\n	case <-c.gone:\n		return c.closeErr\n",
}}), in("internal/request/sender.go", by{requesting, rules}, []mutant{{
	name: "a release is given up before its first request can be answered",
	old:  "start+2*s.Timeout-s.Now()",
	mut:  "start+s.Timeout/4-s.Now()",
}}), in("election.go", by{closing}, []mutant{{
	name: "the second of two resignations overtakes the first",
	old: "	l.resigning <- struct{}{} // a second Resign returns after the first\n" +
		"	defer func() { <-l.resigning }()\n",
	mut: "",
}}), in("errors.go", by{nilling}, []mutant{{
	name: "a nil function is called",
	old:  "	case none:\n		return errNoFunction\n",
	mut:  "",
}}), in("options.go", by{nilling}, []mutant{{
	name: "a nil option is called",
	old:  "		if any(option) == nil {\n",
	mut:  "		if false {\n",
}}), in("internal/adapter/deadline.go", by{refusing}, []mutant{{
	name: "a time limit outlives its requests",
	old:  "\tif d.users == 0 && d.deadlines.next != d {\n",
	mut:  "	if false {\n",
}, {
	name: "the newest time limit outlives the requests that it was left to",
	old:  "	ds.next = nil\n	if d != nil && d.users == 0 {\n",
	mut:  "	if d != nil && d.users == 0 {\n",
}, {
	name: "a time limit ends under a request that waits for it",
	old:  "	ds.next = nil\n	if d != nil && d.users == 0 {\n",
	mut:  "	ds.next = nil\n	if d != nil {\n",
}}), in("store/goredis/goredis.go", by{goRedis}, []mutant{{
	name: "goredis: Close leaves a timer",
	old:  "\ts.deadlines.Stop()\n\tswitch {\n",
	mut:  "	switch {\n",
}}), in("store/rueidis/rueidis.go", by{rueidis}, []mutant{{
	name: "rueidis: Close leaves a timer",
	old:  "CloseIdleConnections() { s.deadlines.Stop() }",
	mut:  "CloseIdleConnections() {}",
}, {
	name: "rueidis: a nil client is dereferenced",
	old:  "!v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil() {",
	mut:  "v.IsValid() && v.Kind() == reflect.Pointer && v.IsNil() {",
}}), in("store/goredis/noretry.go", by{goRedis}, []mutant{{
	name: "goredis: what was not written is an unknown outcome",
	old:  "\t\tcase !w.written:\n\t\t\treturn notWritten(err)\n",
	mut:  "",
}}), in("store/rueidis/errors.go", by{rueidis}, []mutant{{
	name: "rueidis: what was not sent is an unknown outcome",
	old:  "\tif broke == nil && classify(ctx, err) == adapter.NotSent {\n",
	mut:  "	if false {\n",
}}), in("internal/adapter/refusals.go", by{rueidis}, []mutant{{
	name: "TLS that cannot work is tried again",
	old:  "	case errors.As(err, &plain):\n",
	mut:  "	case false:\n",
}, {
	name: "a refused client certificate is tried again",
	old:  `if alert := alertOf(err); alert != "" {`,
	mut:  `if alert := alertOf(err); false {`,
}}))

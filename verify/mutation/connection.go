package main

// What judges the connection to a server, and calls that wait for one.
var (
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
var inConnections = []mutant{{
	name: "a call that waits fails with the first failure",
	file: "wait.go",
	old:  "	if o.try || !request.Transient(err) || request.Ended",
	mut:  "	if true || !request.Transient(err) || request.Ended",
	by:   []check{outlasting},
}, {
	name: "a try waits for the server",
	file: "wait.go",
	old:  "	if o.try || !request.Transient(err) || request.Ended",
	mut:  "	if o.last != nil && o.try || !request.Transient(err) || request.Ended",
	by:   []check{outlasting},
}, {
	name: "a call that waits tries again what is refused for good",
	file: "wait.go",
	old:  "	if o.try || !request.Transient(err) || request.Ended",
	mut:  "	if o.try || request.Ended",
	by:   []check{outlasting},
}, {
	name: "the end of a wait returns the error of the last request",
	file: "wait.go",
	old:  "	if err == nil || !waitOver(ctx, parent) ||\n",
	mut:  "	if true || !waitOver(ctx, parent) ||\n",
	by:   []check{outlasting},
}, {
	name: "the end of the caller's context is told as the end of the wait",
	file: "wait.go",
	old:  "	if request.Ended(ctx) == nil || request.Ended(parent) != nil {\n",
	mut:  "	if request.Ended(ctx) == nil {\n",
	by:   []check{outlasting},
}, {
	name: "the end of a wait does not name the holder",
	file: "wait.go",
	old:  "	if told.Err == nil {\n		readHolder(parent, s, told)\n	}\n",
	mut:  "",
	by:   []check{outlasting},
}, {
	name: "the end of a wait does not say why the server was unreachable",
	file: "wait.go",
	old:  "		told.Err = stopped.last\n",
	mut:  "		told.Err = nil\n",
	by:   []check{outlasting},
}, {
	name: "tries that could not be made end the trying",
	file: "acquire.go",
	old:  "!known && !isTransient(err) ||",
	mut:  "!known ||",
	by:   []check{outlasting},
}, {
	name: "tries that have ended are an unknown outcome",
	file: "wait.go",
	old:  "		return doubt.cause\n",
	mut:  "		return doubt\n",
	by:   []check{outlasting},
}, {
	name: "what was not sent is undone",
	file: "acquire.go",
	old:  "	if at.risk {\n		at.cancel()\n	}\n	end := request.Ended(ctx)\n",
	mut:  "	at.cancel()\n	end := request.Ended(ctx)\n",
	by:   []check{outlasting},
}, {
	name: "what was not sent is an unknown outcome",
	file: "internal/request/errors.go",
	old:  "return Refusal(err) != nil || errors.Is(err, store.ErrNotSent) }",
	mut:  "return Refusal(err) != nil }",
	by:   []check{outlasting},
}, {
	name: "a time limit of the library shows as the end of a context",
	file: "internal/request/errors.go",
	old:  "	if !IsContextEnd(err) || Ended(ctx) != nil {\n",
	mut:  "	if true || Ended(ctx) != nil {\n",
	by:   []check{outlasting},
}, {
	name: "permits that are waited for do not outlast the server",
	file: "semaphore.go",
	old:  "		if !errors.Is(err, ErrHeld) && !isTransient(err) {\n",
	mut:  "		if !errors.Is(err, ErrHeld) {\n",
	by:   []check{outlasting},
}, {
	name: "a reader that waits does not outlast the server",
	file: "acquire.go",
	old:  "	if held := heldIn(err); (held != nil || isTransient(err)) && !try {\n",
	mut:  "	if held := heldIn(err); held != nil && !try {\n",
	by:   []check{outlasting},
}, {
	name: "several locks do not outlast the server",
	file: "multi.go",
	old:  "case !errors.Is(err, ErrHeld) && isTransient(err) && away.outlast(waits, err):",
	mut:  "case false && away.outlast(waits, err):",
	by:   []check{outlasting},
}, {
	name: "a job that waits does not outlast the server",
	file: "periodic.go",
	old:  "case err != nil && isTransient(err) && away.outlast(waits, err):",
	mut:  "case false && away.outlast(waits, err):",
	by:   []check{outlasting},
}, {
	name: "Close is bounded by the caller alone",
	file: "client.go",
	old:  "	limit, parent := closeLimit, ctx\n",
	mut:  "	limit, parent := 50*closeLimit, ctx\n",
	by:   []check{closing},
}, {
	name: "Close releases each lease by itself, a few at a time",
	file: "client.go",
	old:  "		case c.sender.Batches() && h.plain():\n			plain = append(plain, h)\n",
	mut:  "",
	by:   []check{closing},
}, {
	name: "a second Close does not wait for the first",
	file: "client.go",
	old:  "	select {\n	case <-c.gone:\n		return c.closeErr\n",
	mut:  "	select {\n	default:\n		return nil\n	case <-c.gone:\n		return c.closeErr\n",
	by:   []check{closing},
}, {
	name: "a release is given up before its first request can be answered",
	file: "internal/request/sender.go",
	old:  "start+2*s.Timeout-s.Now()",
	mut:  "start+s.Timeout/4-s.Now()",
	by:   []check{requesting, rules},
}, {
	name: "the second of two resignations overtakes the first",
	file: "election.go",
	old: "	l.resigning <- struct{}{} // a second Resign returns after the first\n" +
		"	defer func() { <-l.resigning }()\n",
	mut: "",
	by:  []check{closing},
}, {
	name: "a nil function is called",
	file: "errors.go",
	old:  "	case none:\n		return errNoFunction\n",
	mut:  "",
	by:   []check{nilling},
}, {
	name: "a nil option is called",
	file: "options.go",
	old:  "		if any(option) == nil {\n",
	mut:  "		if false {\n",
	by:   []check{nilling},
}, {
	name: "a time limit outlives its requests",
	file: "internal/adapter/deadline.go",
	old:  "\tif l.users == 0 && l.deadlines.next != l {\n",
	mut:  "	if false {\n",
	by:   []check{refusing},
}, {
	name: "the newest time limit outlives the requests that it was left to",
	file: "internal/adapter/deadline.go",
	old:  "	a.next = nil\n	if l != nil && l.users == 0 {\n",
	mut:  "	if l != nil && l.users == 0 {\n",
	by:   []check{refusing},
}, {
	name: "a time limit ends under a request that waits for it",
	file: "internal/adapter/deadline.go",
	old:  "	a.next = nil\n	if l != nil && l.users == 0 {\n",
	mut:  "	a.next = nil\n	if l != nil {\n",
	by:   []check{refusing},
}, {
	name: "goredis: Close leaves a timer",
	file: "store/goredis/goredis.go",
	old:  "\ts.deadlines.Stop()\n\tswitch {\n",
	mut:  "	switch {\n",
	by:   []check{goRedis},
}, {
	name: "rueidis: Close leaves a timer",
	file: "store/rueidis/rueidis.go",
	old:  "CloseIdleConnections() { s.deadlines.Stop() }",
	mut:  "CloseIdleConnections() {}",
	by:   []check{rueidis},
}, {
	name: "goredis: what was not written is an unknown outcome",
	file: "store/goredis/noretry.go",
	old:  "\t\tcase !w.written:\n\t\t\treturn notWritten(err)\n",
	mut:  "",
	by:   []check{goRedis},
}, {
	name: "rueidis: what was not sent is an unknown outcome",
	file: "store/rueidis/errors.go",
	old:  "\tif broke == nil && classify(ctx, err) == adapter.NotSent {\n",
	mut:  "	if false {\n",
	by:   []check{rueidis},
}, {
	name: "rueidis: a nil client is dereferenced",
	file: "store/rueidis/rueidis.go",
	old:  "!v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil() {",
	mut:  "v.IsValid() && v.Kind() == reflect.Pointer && v.IsNil() {",
	by:   []check{rueidis},
}, {
	name: "TLS that cannot work is tried again",
	file: "internal/adapter/refusals.go",
	old:  "	case errors.As(err, &plain):\n",
	mut:  "	case false:\n",
	by:   []check{rueidis},
}}

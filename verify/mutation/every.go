package main

import "slices"

// inJobs are those of jobs, of names and of refusals.
var inJobs = slices.Concat(in("script/begin_run.lua", by{transcripts}, []mutant{{
	name: "another period of a job is put into its mark",
	old:  "  if first ~= 'change' then return commit('other ' .. agreed) end\n",
	mut:  "",
}, {
	name: "a fixed time comes twice after a clock was set back",
	old:  "  latest = upcoming + period\n",
	mut:  "",
}, {
	name: "a run does not mark its period",
	old:  "fields.period = text(upcoming) .. ' ' .. attempt .. ' ' .. plan\n",
	mut:  "",
}}), in("script/cancel_run.lua", by{transcripts}, []mutant{{
	name: "a cancelled run deletes the period of the job",
	old:  "  fields.period = text(now) .. ' - ' .. plan\n",
	mut:  "  fields.period = text(now) .. ' - 1 -'\n",
}}), in("memstore/begin_run.go", by{rules}, []mutant{{
	name: "a fixed time comes twice after a clock was set back, in the twin",
	old:  "	return next, next + p.period\n",
	mut:  "	return next, now + p.period\n",
}}), in("periodic.go", by{rules}, []mutant{{
	name: "a loop counts its periods from the end of a run",
	old:  "	wait := max(result.Next-(c.now()-seen), 0)\n",
	mut:  "	wait := result.Next\n",
}, {
	name: "a loop ends when a release gets no answer",
	old:  "			if failed != nil && (ctx.Err()",
	mut:  "			if err != nil && (ctx.Err()",
}, {
	name: "a loop waits for the next period although its own is due again",
	old:  "		if l == nil && back.has(result.HolderID) {\n",
	mut:  "		if l == nil && back.has(\"\") {\n",
}, {
	name: "a run that waits is kept out by its own lost grant",
	old:  "		next.Busy = next.Busy || back.has(next.HolderID) //",
	mut:  "		next.Busy = next.Busy || back.has(\"\") //",
}, {
	name: "a run waits for a period that cannot come in time",
	old:  "		tooLate := !next.Busy && next",
	mut:  "		tooLate := false && next",
}, {
	name: "the same fixed times are two periods",
	old:  "		s.Offset = (p.lock.offset%p.period + p.period) % p.period\n",
	mut:  "		s.Offset = p.lock.offset\n",
}}), in("lock.go", by{rules}, []mutant{{
	name: "the function's own error of a run is wrapped",
	old:  "		err = joinErrors(err, l.Release(ctx))\n",
	mut:  "		err = errors.Join(err, l.Release(ctx))\n",
}}), in("internal/wire/several.go", by{naming, rules}, []mutant{{
	name: "a job's record is that of a lock under another prefix",
	old:  "return prefix + \":{\" + Encode(name) + \"}:periodic\" }",
	mut:  "return prefix + \":every:{\" + Encode(name) + \"}\" }",
}}), in("internal/wire/several.go", by{naming}, []mutant{{
	name: "an election's channel is that of another prefix",
	old:  "	return prefix + \":watch=\" + Encode(name)\n",
	mut:  "	return prefix + \":watch:\" + Encode(name)\n",
}}), in("internal/adapter/refusals.go", by{refusing}, []mutant{{
	name: "a refusal in a script is not known on newer servers",
	old:  " ||\n		strings.HasPrefix(message, \"ERR ACL failure in script: \") {",
	mut:  " {",
}}), in("internal/adapter/feed.go", by{refusing}, []mutant{{
	name: "a channel that is dropped while its connection is replaced is still delivered",
	old:  "		if !still[name] { // else",
	mut:  "		if true { // else",
}, {
	name: "a connection is replaced for one channel of many",
	old:  "len(f.kept) > 0 && (f.hub.Driver.Nodes == nil || len(f.kept)*listenersPerKept >= f.channels)",
	mut:  "len(f.kept) > 0",
}}), in("errors.go", by{rules}, []mutant{{
	name: "what a server refused until the end has no hint",
	old:  "		return Hint(stopped.last)\n",
	mut:  "		return \"\"\n",
}, {
	name: "what a server refused until the end of the context is not told",
	old:  "	if request.IsContextEnd(err) {\n		return before",
	mut:  "	if true {\n		return before",
}, {
	name: "a request under an ended context has an unknown outcome",
	old:  "	if end := request.Ended(ctx); end != nil {\n		return fmt.Errorf(\"holdfast: %s",
	mut:  "	if end := request.Ended(ctx); end == errLate {\n		return fmt.Errorf(\"holdfast: %s",
}, {
	name: "the hint about a forbidden key is for one server only",
	old:  "strings.Contains(said, \"a key\"), strings.Contains(said, \"' key\"):",
	mut:  "strings.Contains(said, \"' key\"):",
}}))

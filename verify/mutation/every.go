package main

// inJobs are those of jobs, of names and of refusals.
var inJobs = []mutant{{
	name: "another period of a job is put into its mark",
	file: "script/begin_run.lua",
	old:  "  if first ~= 'change' then return commit('other ' .. agreed) end\n",
	mut:  "",
	by:   []check{transcripts},
}, {
	name: "a fixed time comes twice after a clock was set back",
	file: "script/begin_run.lua",
	old:  "  latest = upcoming + period\n",
	mut:  "",
	by:   []check{transcripts},
}, {
	name: "a run does not mark its period",
	file: "script/begin_run.lua",
	old:  "fields.period = text(upcoming) .. ' ' .. attempt .. ' ' .. plan\n",
	mut:  "",
	by:   []check{transcripts},
}, {
	name: "a cancelled run deletes the period of the job",
	file: "script/cancel_run.lua",
	old:  "  fields.period = text(now) .. ' - ' .. plan\n",
	mut:  "  fields.period = text(now) .. ' - 1 -'\n",
	by:   []check{transcripts},
}, {
	name: "a fixed time comes twice after a clock was set back, in the twin",
	file: "memstore/begin_run.go",
	old:  "	return next, next + p.period\n",
	mut:  "	return next, now + p.period\n",
	by:   []check{rules},
}, {
	name: "a loop counts its periods from the end of a run",
	file: "periodic.go",
	old:  "	wait := max(turn.Next-(c.now()-seen), 0)\n",
	mut:  "	wait := turn.Next\n",
	by:   []check{rules},
}, {
	name: "a loop ends when a release gets no answer",
	file: "periodic.go",
	old:  "			if failed != nil && (ctx.Err()",
	mut:  "			if err != nil && (ctx.Err()",
	by:   []check{rules},
}, {
	name: "a loop waits for the next period although its own is due again",
	file: "periodic.go",
	old:  "		if l == nil && back.has(turn.HolderID) {\n",
	mut:  "		if l == nil && back.has(\"\") {\n",
	by:   []check{rules},
}, {
	name: "the same fixed times are two periods",
	file: "periodic.go",
	old:  "		s.Offset = (e.lock.offset%e.period + e.period) % e.period\n",
	mut:  "		s.Offset = e.lock.offset\n",
	by:   []check{rules},
}, {
	name: "the function's own error of a run is wrapped",
	file: "lock.go",
	old:  "		err = both(err, l.Release(ctx))\n",
	mut:  "		err = errors.Join(err, l.Release(ctx))\n",
	by:   []check{rules},
}, {
	name: "a job's record is that of a lock under another prefix",
	file: "internal/wire/several.go",
	old:  "return prefix + \":{\" + Encode(name) + \"}:periodic\" }",
	mut:  "return prefix + \":every:{\" + Encode(name) + \"}\" }",
	by:   []check{naming, rules},
}, {
	name: "an election's channel is that of another prefix",
	file: "internal/wire/several.go",
	old:  "	return prefix + \":watch=\" + Encode(name)\n",
	mut:  "	return prefix + \":watch:\" + Encode(name)\n",
	by:   []check{naming},
}, {
	name: "a refusal in a script is not known on newer servers",
	file: "internal/adapter/refusals.go",
	old:  " ||\n		strings.HasPrefix(message, \"ERR ACL failure in script: \") {",
	mut:  " {",
	by:   []check{refusing},
}, {
	name: "a channel that is dropped while its connection is replaced is still delivered",
	file: "internal/adapter/feed.go",
	old:  "		if !still[name] { // else",
	mut:  "		if true { // else",
	by:   []check{refusing},
}, {
	name: "a connection is replaced for one channel of many",
	file: "internal/adapter/feed.go",
	old:  "len(f.kept) > 0 && (f.hub.Driver.Nodes == nil || len(f.kept)*listenersPerKept >= f.channels)",
	mut:  "len(f.kept) > 0",
	by:   []check{refusing},
}, {
	name: "the hint about a forbidden key is for one server only",
	file: "errors.go",
	old:  "strings.Contains(e.Message, \"a key\"),\n		strings.Contains(e.Message, \"' key\"):",
	mut:  "strings.Contains(e.Message, \"' key\"):",
	by:   []check{rules},
}}

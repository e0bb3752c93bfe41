package main

// inWatching are those of the calls that wait for a free lock.
var inWatching = []mutant{{
	name: "a watcher is told of a lock that a waiter has got",
	file: "script/record.lua",
	old:  "  elseif released and not holder and (waiting == 0 or not must_queue) then\n",
	mut:  "  elseif released then\n",
	by:   []check{transcripts},
}, {
	name: "a lock keeps the mark of a watcher that has gone",
	file: "script/record.lua",
	old:  "  if there[2] == 0 then\n",
	mut:  "  if there[2] == -1 then\n",
	by:   []check{transcripts},
}, {
	name: "a watcher is not told of a lease that was made shorter",
	file: "script/record.lua",
	old:  "    news = 'sooner'\n",
	mut:  "    news = nil\n",
	by:   []check{transcripts},
}, {
	name: "a lease that ended and was followed in one step is no news",
	file: "script/record.lua",
	old:  "gap = gap or (before and",
	mut:  "gap = gap or (false and",
	by:   []check{transcripts},
}, {
	name: "a lock that is watched is not renewed",
	file: "script/renew.lua",
	old:  "( ?%+?!?)$",
	mut:  "( ?%+?)$",
	by:   []check{transcripts},
}, {
	name: "a release of several locks forgets the watchers of one",
	file: "memstore/release_idle.go",
	old:  " || t.watched {",
	mut:  " {",
	by:   []check{transcripts},
}, {
	name: "a watcher does not ask again after it has subscribed",
	file: "mutex.go",
	old:  "		if f.subscribe(ctx) {\n			continue",
	mut:  "		if f.subscribe(ctx) && false {\n			continue",
	by:   []check{watching},
}, {
	name: "a watcher takes any news for its own",
	file: "mutex.go",
	old:  "	case news.Mode == \"\" || news.Mode == wire.Shared && f.want == wire.Shared,\n",
	mut:  "	case news.Mode != wire.PermitMode,\n",
	by:   []check{watching},
}, {
	name: "a watcher of more permits is told of fewer",
	file: "mutex.go",
	old:  "news.Used+f.weight <= f.limit:",
	mut:  "news.Used < f.limit:",
	by:   []check{watching},
}, {
	name: "a watcher misses what happened while its subscription was broken",
	file: "mutex.go",
	old:  "Resumed: func() { fill(f.ask) },",
	mut:  "Resumed: func() {},",
	by:   []check{watching},
}, {
	name: "a watcher leaves its subscription behind",
	file: "mutex.go",
	old:  "		f.stop()\n",
	mut:  "",
	by:   []check{watching},
}, {
	name: "a call waits for the end of its own lease",
	file: "mutex.go",
	old:  "		return held.deadlock()\n	}\n	if !c.life.Enter() {",
	mut:  "	}\n	if !c.life.Enter() {",
	by:   []check{watching},
}}

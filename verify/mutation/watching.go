package main

import "slices"

// inWatching are those of the calls that wait for a free lock.
var inWatching = slices.Concat(in("script/record.lua", by{transcripts}, []mutant{{
	name: "a watcher is told of a lock that a waiter has got",
	old:  "  elseif released and not holder and (waiting == 0 or not must_queue) then\n",
	mut:  "  elseif released then\n",
}, {
	name: "a lock keeps the mark of a watcher that has gone",
	old:  "  if there[2] == 0 then\n",
	mut:  "  if there[2] == -1 then\n",
}, {
	name: "a watcher is not told of a lease that was made shorter",
	old:  "    news = 'sooner'\n",
	mut:  "    news = nil\n",
}, {
	name: "a lease that ended and was followed in one step is no news",
	old:  "gap = gap or (before and",
	mut:  "gap = gap or (false and",
}}), in("script/renew.lua", by{transcripts}, []mutant{{
	name: "a lock that is watched is not renewed",
	old:  "( ?%+?!?)$",
	mut:  "( ?%+?)$",
}}), in("memstore/release_idle.go", by{transcripts}, []mutant{{
	name: "a release of several locks forgets the watchers of one",
	old:  " || st.watched {",
	mut:  " {",
}}), in("mutex.go", by{watching}, []mutant{{
	name: "a watcher does not ask again after it has subscribed",
	old:  "		if f.subscribe(ctx) {\n			continue",
	mut:  "		if f.subscribe(ctx) && false {\n			continue",
}, {
	name: "a watcher takes any news for its own",
	old:  "	case news.Mode == \"\" || news.Mode == wire.Shared && f.want == wire.Shared,\n",
	mut:  "	case news.Mode != wire.PermitMode,\n",
}, {
	name: "a watcher believes the news of another database",
	old:  " || news.Birth != f.birth.Load():",
	mut:  ":",
}, {
	name: "a watcher of more permits is told of fewer",
	old:  "news.Used+f.permits <= f.limit:",
	mut:  "news.Used < f.limit:",
}, {
	name: "a watcher misses what happened while its subscription was broken",
	old:  "Resumed: func() { signal(f.ask) },",
	mut:  "Resumed: func() {},",
}, {
	name: "a watcher leaves its subscription behind",
	old:  "		f.stop()\n",
	mut:  "",
}, {
	name: "a call waits for the end of its own lease",
	old:  "		return held.deadlock()\n	}\n	if !c.life.BeginCall() {",
	mut:  "	}\n	if !c.life.BeginCall() {",
}}))

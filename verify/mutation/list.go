package main

import "slices"

// paging judges what the page shows of the records that cannot be read.
var paging = check{"bubble tests", ".", []string{"-run=Unreadable", "./observe/page"}}

// inListing are those of what lists the locks.
var inListing = slices.Concat(in("internal/scan/scan.go", by{finding}, []mutant{{
	name: "a listing yields a lock once for each time that the scan finds it",
	old:  "!ok || seen[r] || ",
	mut:  "!ok || ",
}, {
	name: "a listing takes a key below a lock for a lock",
	old:  "ok && (end == \"\" || r.Job)",
	mut:  "ok",
}}), in("internal/adapter/scan.go", by{refusing}, []mutant{{
	name: "a special character in a prefix is a pattern",
	old:  "	pattern := literally.Replace(prefix) + \"*\"\n",
	mut:  "	pattern := prefix + \"*\"\n",
}, {
	name: "a scan ends at its first page",
	old:  "cursor == 0 {",
	mut:  "cursor >= 0 {",
}, {
	name: "a node of a Cluster that is down hides the locks of the others",
	old:  "		if Ended(ctx) {\n",
	mut:  "		if true {\n",
}}), in("quorum/scan.go", by{uniting}, []mutant{{
	name: "quorum: a scan ends at its first dead node",
	old:  "			failed[i] = err\n",
	mut:  "			failed[i] = err\n			return err\n",
}, {
	name: "quorum: a scan is content with what fewer nodes than a majority know",
	old:  "len(failed) > len(s.nodes)-s.majority",
	mut:  "len(failed) == len(s.nodes)",
}, {
	name: "quorum: a scan counts the time of its caller as the node's",
	old:  "		late.Stop()\n		stopped",
	mut:  "		stopped",
}}), in("inspect.go", by{listing}, []mutant{{
	name: "a listing that misses a node seems whole",
	old:  "	if err != nil && !errors.Is(context.Cause(ctx), errListed) {",
	mut:  "	if false {",
}, {
	name: "a listing goes on when its caller has seen enough",
	old:  "			end(errListed)\n",
	mut:  "",
}, {
	name: "a listing that could not read a record seems whole",
	old:  "				case err != nil && !isUnreadable(err):\n					end(err)\n",
	mut:  "				case err != nil && !isUnreadable(err):\n",
}, {
	name: "a record of a newer format ends a listing",
	old:  "refused.Code == \"FORMAT\" || errors",
	mut:  "refused.Code == \"\" || errors",
}, {
	name: "a key that the user may not read ends a listing",
	old:  "(refused.Code == \"ERR\" || refused.Code == \"NOPERM\")",
	mut:  "refused.Code == \"ERR\"",
}, {
	name: "a listing on a server that refuses every record seems to have rows",
	old:  "len(early) > 0 && refusesAll(ctx, c):",
	mut:  "false:",
}, {
	name: "a listing asks for every record of a server that refuses all",
	old:  "asks := len(early) == earlyRefusals && !read",
	mut:  "asks := false",
}, {
	name: "the only record, which is damaged, passes for a server that refuses all",
	old:  "len(early) > 0 && refusesAll(ctx, c):",
	mut:  "len(early) > 0:",
}, {
	name: "a record whose words make no sense ends a listing",
	old:  " || errors.Is(err, wire.ErrAnswer) ||",
	mut:  " ||",
}, {
	name: "a key that is no lock ends a listing",
	old:  "				case isForeign(err): // named like a record\n",
	mut:  "",
}, {
	name: "a listing leaves out whatever a server refuses",
	old:  "return refused != nil && refused.Code == \"WRONGTYPE\"",
	mut:  "return refused != nil",
}}), in("observe/page/watcher.go", by{paging}, []mutant{{
	name: "the page takes the lease of a record that it cannot read for lost",
	old:  "bad || all.cut {",
	mut:  "bad && all.cut {",
}}))

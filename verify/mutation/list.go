package main

// inListing are those of what lists the locks.
var inListing = []mutant{{
	name: "a listing yields a lock once for each time that the scan finds it",
	file: "internal/scan/scan.go",
	old:  "!ok || seen[r] || ",
	mut:  "!ok || ",
	by:   []check{finding},
}, {
	name: "a listing takes a key below a lock for a lock",
	file: "internal/scan/scan.go",
	old:  "ok && (end == \"\" || r.Job)",
	mut:  "ok",
	by:   []check{finding},
}, {
	name: "a special character in a prefix is a pattern",
	file: "internal/adapter/scan.go",
	old:  "	pattern := literally.Replace(prefix) + \"*\"\n",
	mut:  "	pattern := prefix + \"*\"\n",
	by:   []check{refusing},
}, {
	name: "a scan ends at its first page",
	file: "internal/adapter/scan.go",
	old:  "cursor == 0 {",
	mut:  "cursor >= 0 {",
	by:   []check{refusing},
}, {
	name: "quorum: a scan ends at its first dead node",
	file: "quorum/scan.go",
	old:  "			failed[i] = err\n",
	mut:  "			failed[i] = err\n			return err\n",
	by:   []check{uniting},
}, {
	name: "quorum: a scan is content with what fewer nodes than a majority know",
	file: "quorum/scan.go",
	old:  "len(failed) > len(s.nodes)-s.majority",
	mut:  "len(failed) == len(s.nodes)",
	by:   []check{uniting},
}, {
	name: "quorum: a scan counts the time of its caller as the node's",
	file: "quorum/scan.go",
	old:  "		late.Stop()\n		stopped",
	mut:  "		stopped",
	by:   []check{uniting},
}, {
	name: "a listing goes on when its caller has seen enough",
	file: "inspect.go",
	old:  "			end(errListed)\n",
	mut:  "",
	by:   []check{listing},
}, {
	name: "a listing that could not read a record seems whole",
	file: "inspect.go",
	old:  "				case err != nil:\n					end(err)\n",
	mut:  "				case err != nil:\n",
	by:   []check{listing},
}, {
	name: "a key that is no lock ends a listing",
	file: "inspect.go",
	old:  "				case isForeign(err): // named like a record\n",
	mut:  "",
	by:   []check{listing},
}, {
	name: "a listing leaves out whatever a server refuses",
	file: "inspect.go",
	old:  "errors.As(err, &refused) && refused.Code == \"WRONGTYPE\"",
	mut:  "errors.As(err, &refused)",
	by:   []check{listing},
}}

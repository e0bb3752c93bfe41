package main

import "slices"

// inWords are those of what the tool says.
var inWords = slices.Concat(in("cmd/holdfast/run.go", by{wiring}, []mutant{{
	name: "a run inside a bridge does not see the lock of the library",
	old:  "	if r.foreign() {\n		words =",
	mut:  "	if r.foreign() && !r.bridge {\n		words =",
}, {
	name: "the key of a library's lock is shown as that of a native one",
	old:  "			key = name\n",
	mut:  "			_ = name\n",
}, {
	name: "a chain has a name with a space as it is",
	old:  "wire.Encode(r.server.nameIn(r.server.old, name))",
	mut:  "r.server.nameIn(r.server.old, name)",
}}), in("cmd/holdfast/evict.go", by{wiring}, []mutant{{
	name: "evict calls a job that runs free",
	old:  "	case !state.Held() && job.Run != nil:\n",
	mut:  "	case false:\n",
}}), in("cmd/holdfast/say.go", by{wording}, []mutant{{
	name: "a character that turns the text around it is printed",
	old:  "		case !strconv.IsPrint(r):\n",
	mut:  "		case !strconv.IsPrint(r) && r < ' ':\n",
}}), in("cmd/holdfast/explain.go", by{wording}, []mutant{{
	name: "a connection that is closed is EOF",
	old:  "	case errors.Is(err, io.EOF):\n",
	mut:  "	case err == io.EOF:\n",
}}))

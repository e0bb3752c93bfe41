package main

import "slices"

// inState are those of holdfast elect --state.
var inState = slices.Concat(in("cmd/holdfast/supervise.go", by{resuming}, []mutant{{
	name: "the guardian of a leader's command does not keep the lock of the state file",
	old:  "		guard.Keep = r.state.lock\n",
	mut:  "",
}}), in("cmd/holdfast/state.go", by{resuming}, []mutant{{
	name: "a copy of a state file resumes at once",
	old:  "if s.identity == \"\" || s.saved.Lock != s.identity {",
	mut:  "if s.identity == \"\" {",
}, {
	name: "a state file of another election is used",
	old:  "	case saved.Election != election || saved.Prefix != prefix:\n",
	mut:  "	case saved.Election != election && saved.Prefix != prefix:\n",
}, {
	name: "a resumed leader shows the value of before",
	old:  "	for l.Value() != o.value {\n",
	mut:  "	for false {\n",
}}), in("cmd/holdfast/elect.go", by{resuming}, []mutant{{
	name: "the state file outlives the leadership",
	old:  "	if r.state.leads {\n",
	mut:  "	if false {\n",
}}))

package main

// inState are those of holdfast elect --state.
var inState = []mutant{{
	name: "the guardian of a leader's command does not keep the lock of the state file",
	file: "cmd/holdfast/supervise.go",
	old:  "		guard.Keep = r.state.lock\n",
	mut:  "",
	by:   []check{resuming},
}, {
	name: "a copy of a state file resumes at once",
	file: "cmd/holdfast/state.go",
	old:  "if s.identity == \"\" || s.saved.Lock != s.identity {",
	mut:  "if s.identity == \"\" {",
	by:   []check{resuming},
}, {
	name: "the state file outlives the leadership",
	file: "cmd/holdfast/elect.go",
	old:  "	if r.state.leads {\n",
	mut:  "	if false {\n",
	by:   []check{resuming},
}, {
	name: "a state file of another election is used",
	file: "cmd/holdfast/state.go",
	old:  "	case saved.Election != election || saved.Prefix != prefix:\n",
	mut:  "	case saved.Election != election && saved.Prefix != prefix:\n",
	by:   []check{resuming},
}, {
	name: "a resumed leader shows the value of before",
	file: "cmd/holdfast/state.go",
	old:  "	for l.Value() != o.value {\n",
	mut:  "	for false {\n",
	by:   []check{resuming},
}}

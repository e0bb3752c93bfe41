package main

import "slices"

// flagging are the tests of the tool's command lines.
var flagging = check{"unit tests", "cmd/holdfast", []string{"-timeout=2m", "-run=TestNoFlag|TestWhatTwoFlags", "."}}

// inFlags are those of what the tool's command line refuses.
var inFlags = slices.Concat(in("cmd/holdfast/flags.go", by{flagging}, []mutant{{
	name: "an empty value of a flag is its default",
	old:  "		if f.Value.String() == \"\" {\n",
	mut:  "		if false {\n",
}}), in("internal/commandline/commandline.go", by{flagging}, []mutant{{
	name: "an empty address of a server is no address",
	old:  "	if len(words) == 0 {\n",
	mut:  "	if false {\n",
}}), in("cmd/holdfast/tags.go", by{flagging}, []mutant{{
	name: "of two values of a tag the last one counts",
	old:  "twice && other != value {",
	mut:  "twice && other == \"\" {",
}}))

package main

import "slices"

// guardians is what starts, watches and ends the tool's command.
const (
	guardians = "cmd/holdfast/internal/proc/guardian_unix.go"
	wrappers  = "cmd/holdfast/internal/proc/guard_unix.go"
	processes = "cmd/holdfast/internal/proc/tree_linux.go"
)

// inGuardian are those of the process that ends a command whose wrapper cannot.
var inGuardian = slices.Concat(in(guardians, by{guarding}, []mutant{{
	name: "a command goes on without its wrapper",
	old:  "				g.bereaved()\n",
	mut:  "",
}, {
	name: "a command that ignores its signal outlives the grace",
	old:  "	g.killAt = min(g.killAt, now+g.start.Grace)\n",
	mut:  "	_ = now\n",
}, {
	name: "a kill does not reach other sessions",
	old:  "	g.send(syscall.SIGKILL)\n	killBelow(os.Getpid())\n",
	mut:  "	g.send(syscall.SIGKILL)\n",
}, {
	name: "a guardian ends before its message is written",
	old:  "			g.finishSaying()\n",
	mut:  "",
}, {
	name: "a guardian keeps its first limits",
	old:  "		g.tellAt, g.killAt = o.Tell, o.Kill\n",
	mut:  "",
}}), in(wrappers, by{guarding}, []mutant{{
	name: "a guardian that died while it waited is not replaced",
	old:  "!errors.Is(err, errGuardian) {",
	mut:  "!errors.Is(err, errGuardian) || true {",
}, {
	name: "what a dead guardian leaves behind goes on",
	old:  "	code := killStrays(g.pid, g.group)\n",
	mut:  "	code := CodeSignal + 9\n",
}}), in(processes, by{guarding}, []mutant{{
	name: "a signal reaches a later process of the same id",
	old:  "ok && again.began == p.began {",
	mut:  "ok && again.began != \"\" {",
}, {
	name: "a parenthesis in a name ends it",
	old:  "bytes.LastIndexByte(stat, ')')",
	mut:  "bytes.IndexByte(stat, ')')",
}}))

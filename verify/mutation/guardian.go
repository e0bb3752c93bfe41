package main

// guardians is what starts, watches and ends the tool's command.
const (
	guardians = "cmd/holdfast/internal/proc/guardian_unix.go"
	wrappers  = "cmd/holdfast/internal/proc/guard_unix.go"
	processes = "cmd/holdfast/internal/proc/tree_linux.go"
)

// inGuardian are those of the process that ends a command whose wrapper cannot.
var inGuardian = []mutant{{
	name: "a command goes on without its wrapper",
	file: guardians,
	old:  "				g.bereaved()\n",
	mut:  "",
	by:   []check{guarding},
}, {
	name: "a command that ignores its signal outlives the grace",
	file: guardians,
	old:  "	g.killAt = min(g.killAt, now+g.start.Grace)\n",
	mut:  "	_ = now\n",
	by:   []check{guarding},
}, {
	name: "a kill does not reach other sessions",
	file: guardians,
	old:  "	g.send(syscall.SIGKILL)\n	killBelow(os.Getpid())\n",
	mut:  "	g.send(syscall.SIGKILL)\n",
	by:   []check{guarding},
}, {
	name: "a guardian keeps its first limits",
	file: guardians,
	old:  "		g.tellAt, g.killAt = o.Tell, o.Kill\n",
	mut:  "",
	by:   []check{guarding},
}, {
	name: "a guardian that died while it waited is not replaced",
	file: wrappers,
	old:  "!errors.Is(err, errGuardian) {",
	mut:  "!errors.Is(err, errGuardian) || true {",
	by:   []check{guarding},
}, {
	name: "what a dead guardian leaves behind goes on",
	file: wrappers,
	old:  "	code := killStrays(g.pid, g.group)\n",
	mut:  "	code := CodeSignal + 9\n",
	by:   []check{guarding},
}, {
	name: "a signal reaches a later process of the same id",
	file: processes,
	old:  "ok && again.began == p.began {",
	mut:  "ok && again.began != \"\" {",
	by:   []check{guarding},
}, {
	name: "a parenthesis in a name ends it",
	file: processes,
	old:  "bytes.LastIndexByte(stat, ')')",
	mut:  "bytes.IndexByte(stat, ')')",
	by:   []check{guarding},
}}

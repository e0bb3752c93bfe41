package main

import "slices"

// The guards of resources.
const (
	sqlGuard    = "fence/sqlfence/sqlfence.go"
	redisGuard  = "fence/redisfence/redisfence.go"
	httpGuard   = "fence/httpfence/httpfence.go"
	objectGuard = "fence/objectfence/objectfence.go"
)

// The guards by themselves, and on real servers.
var (
	handling = check{"bubble tests", "fence", []string{"./httpfence"}}
	storing  = check{"unit tests", "fence", []string{"./objectfence"}}
	inSQL    = check{"guard tests", "verify/fence", []string{
		"-run=Guard|Resources|Check|Row|Snapshot|Fails|Commit", ".",
	}}
	inRedis = check{"guard tests", "verify/fence", []string{"-run=Redis|Commands|LostAnswer|Cluster", "."}}
)

// inGuards are those of the guards.
var inGuards = slices.Concat(in(sqlGuard, by{inSQL}, []mutant{{
	name: "a guard in PostgreSQL takes an older token for the newest",
	old:  "DO UPDATE SET token = GREATEST(f.token, excluded.token) RETURNING",
	mut:  "DO UPDATE SET token = excluded.token RETURNING",
}, {
	name: "a guard in MySQL reads the token of its snapshot",
	old:  `"SELECT token FROM "+t+" WHERE resource = ? FOR UPDATE"`,
	mut:  `"SELECT token FROM "+t+" WHERE resource = ?"`,
}, {
	name: "a guard in MySQL takes two names that differ in case for one resource",
	old:  `name, end = "VARBINARY(255)"`,
	mut:  `name, end = "VARCHAR(255)"`,
}, {
	name: "a guard's transaction runs without its check",
	old:  "\t\tif err := g.Check(ctx, tx, resource, token); err != nil {\n",
	mut:  "\t\tif err := fence.Check(resource, token); err != nil {\n",
}, {
	name: "a guard's transaction does not say that its commit is unknown",
	old:  `fmt.Errorf("%w: %w", ErrCommit, err)`,
	mut:  `fmt.Errorf("%w", err)`,
}, {
	name: "a guarded row refuses a second write under the same token",
	old:  "\"UPDATE %s SET %s, %s = %s%s AND %s <= %s\"",
	mut:  "\"UPDATE %s SET %s, %s = %s%s AND %s < %s\"",
}}), in(redisGuard, by{inRedis}, []mutant{{
	name: "a guard in Redis accepts an older token",
	old:  "if seen[1] > token then",
	mut:  "if false then",
}, {
	name: "a guard in Redis writes twice if a request comes twice",
	old:  "if seen[2] == id then return seen[3] end\n",
	mut:  "",
}, {
	name: "a guard in Redis goes on after a command that was refused",
	old:  "answer = 'failed ' .. n .. ' ' .. done.err\nbreak\n",
	mut:  "answer = 'failed ' .. n .. ' ' .. done.err\n",
}, {
	name: "a guard in a Cluster sends keys of several slots",
	old:  "\t\t\tif g.Store.Group(key) != group {\n",
	mut:  "\t\t\tif false && g.Store.Group(key) != group {\n",
}}), in(httpGuard, by{handling}, []mutant{{
	name: "a guard of a service runs a newer caller beside an older one",
	old:  "\t\tif !older {\n",
	mut:  "\t\tif !older || true {\n",
}, {
	name: "a guard of a service lets a caller run that was overtaken while it waited",
	old:  "\t\t\tr.wake() // what waits with a lower token waits in vain\n",
	mut:  "",
}, {
	name: "a guard of a service keeps every resource though a memory remembers them",
	old:  "if r.users--; r.users == 0 && g.Memory != nil && g.resources[name] == r {",
	mut:  "if r.users--; false && g.resources[name] == r {",
}}), in(objectGuard, by{storing}, []mutant{{
	name: "a guarded object with the same content is the same version",
	old:  `fmt.Appendf(nil, "%s%d %s\n", mark, token, word)`,
	mut:  `fmt.Appendf(nil, "%s%d %.0s-\n", mark, min(token, 1), word)`,
}, {
	name: "a guard writes an object again though its write has arrived",
	old:  "\t\tif s.word == word {\n",
	mut:  "\t\tif false {\n",
}}))

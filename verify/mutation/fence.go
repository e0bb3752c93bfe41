package main

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
var inGuards = []mutant{{
	name: "a guard in PostgreSQL takes an older token for the newest",
	file: sqlGuard,
	old:  "DO UPDATE SET token = GREATEST(f.token, excluded.token) RETURNING",
	mut:  "DO UPDATE SET token = excluded.token RETURNING",
	by:   []check{inSQL},
}, {
	name: "a guard in MySQL reads the token of its snapshot",
	file: sqlGuard,
	old:  `"SELECT token FROM "+t+" WHERE resource = ? FOR UPDATE"`,
	mut:  `"SELECT token FROM "+t+" WHERE resource = ?"`,
	by:   []check{inSQL},
}, {
	name: "a guard in MySQL takes two names that differ in case for one resource",
	file: sqlGuard,
	old:  `name, end = "VARBINARY(255)"`,
	mut:  `name, end = "VARCHAR(255)"`,
	by:   []check{inSQL},
}, {
	name: "a guard's transaction runs without its check",
	file: sqlGuard,
	old:  "\t\tif err := g.Check(ctx, tx, resource, token); err != nil {\n",
	mut:  "\t\tif err := fence.Check(resource, token); err != nil {\n",
	by:   []check{inSQL},
}, {
	name: "a guard's transaction does not say that its commit is unknown",
	file: sqlGuard,
	old:  `fmt.Errorf("%w: %w", ErrCommit, err)`,
	mut:  `fmt.Errorf("%w", err)`,
	by:   []check{inSQL},
}, {
	name: "a guarded row refuses a second write under the same token",
	file: sqlGuard,
	old:  "\"UPDATE %s SET %s, %s = %s%s AND %s <= %s\"",
	mut:  "\"UPDATE %s SET %s, %s = %s%s AND %s < %s\"",
	by:   []check{inSQL},
}, {
	name: "a guard in Redis accepts an older token",
	file: redisGuard,
	old:  "if seen[1] > token then",
	mut:  "if false then",
	by:   []check{inRedis},
}, {
	name: "a guard in Redis writes twice if a request comes twice",
	file: redisGuard,
	old:  "if seen[2] == id then return seen[3] end\n",
	mut:  "",
	by:   []check{inRedis},
}, {
	name: "a guard in Redis goes on after a command that was refused",
	file: redisGuard,
	old:  "answer = 'failed ' .. n .. ' ' .. done.err\nbreak\n",
	mut:  "answer = 'failed ' .. n .. ' ' .. done.err\n",
	by:   []check{inRedis},
}, {
	name: "a guard in a Cluster sends keys of several slots",
	file: redisGuard,
	old:  "\t\t\tif g.Store.Group(key) != group {\n",
	mut:  "\t\t\tif false && g.Store.Group(key) != group {\n",
	by:   []check{inRedis},
}, {
	name: "a guard of a service runs a newer caller beside an older one",
	file: httpGuard,
	old:  "\t\tif !older {\n",
	mut:  "\t\tif !older || true {\n",
	by:   []check{handling},
}, {
	name: "a guard of a service lets a caller run that was overtaken while it waited",
	file: httpGuard,
	old:  "\t\t\te.wake() // what waits with a lower token waits in vain\n",
	mut:  "",
	by:   []check{handling},
}, {
	name: "a guard of a service keeps every resource though a memory remembers them",
	file: httpGuard,
	old:  "if e.users--; e.users == 0 && g.Memory != nil && g.resources[name] == e {",
	mut:  "if e.users--; false && g.resources[name] == e {",
	by:   []check{handling},
}, {
	name: "a guarded object with the same content is the same version",
	file: objectGuard,
	old:  `fmt.Appendf(nil, "%s%d %s\n", mark, token, word)`,
	mut:  `fmt.Appendf(nil, "%s%d %.0s-\n", mark, min(token, 1), word)`,
	by:   []check{storing},
}, {
	name: "a guard writes an object again though its write has arrived",
	file: objectGuard,
	old:  "\t\tif s.word == word {\n",
	mut:  "\t\tif false {\n",
	by:   []check{storing},
}}

package main

import "slices"

// mutants are all that there are. The rule of what belongs to them: a defect of a step of the server, of a
// quorum, or of a promise in docs/guarantees.md, that would let two clients hold a lock, lose a waiter, or
// repeat a token. Packages that only compute have tables of their own.
var mutants = slices.Concat(inScripts, inLeases, inWaiting, inKinds, inStores, inQuorum)

// The checks.
var (
	// The worlds of the simulation: the library over memstore, in virtual time.
	worlds = check{"verify", "./sim", []string{"-run=TestWorlds$"}}
	// The scripts against memstore, step by step, with the invariants as assertions. Nobody reads the
	// sequence that was found, so it is not made shorter. The seed is fixed, so that each run catches the same mutants.
	oracle = check{"verify", "./oracle", []string{"-rapid.shrinktime=1ms", "-rapid.seed=1"}}
	// The scripts against their golden transcripts, and what they do on servers in a bad state.
	transcripts = unit("./script")
	// The library in virtual time.
	library = unit("./contract")
	// Locks over several servers, in virtual time.
	quorum = unit("./quorum")
	// The stores on servers of their own.
	goredis = check{"store/goredis", ".", nil}
	rueidis = check{"store/rueidis", ".", nil}
)

// unit are the tests of a package of the root module.
func unit(pkg string) check { return check{".", pkg, nil} }

// in are mutants of one file that the tests of one package are to notice.
func in(file string, tests check, mutants []mutant) []mutant {
	for i := range mutants {
		mutants[i].file, mutants[i].tests = file, tests
	}
	return mutants
}

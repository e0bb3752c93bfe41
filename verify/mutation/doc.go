// Mutation breaks the library on purpose, one rule at a time, and asks the tests whether
// they notice.
//
//	go run ./mutation             all defects, one after the other
//	go run ./mutation -only WAIT  those whose names match
//	go run ./mutation -parallel 4 four at a time, on a machine with more processors
//	go run ./mutation -write      what is found goes to docs/track-record/mutations.md
//
// A mutant is a piece of a file and its replacement. The file itself is not
// touched: go test is given an overlay, which also reaches the scripts that the library
// embeds. Each mutant names the checks that are to catch it; the test that caught it last time,
// which the table knows, is run before them. A check that fails by a test has caught it; one
// that does not build has shown nothing, and is an error, and one that hangs has not said what
// is wrong. A mutant that no check catches has survived: a test is missing, and the command
// fails.
package main

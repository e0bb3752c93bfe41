// Mutation breaks the library on purpose, one rule at a time, and asks the tests whether
// they notice.
//
//	go run ./mutation             all defects
//	go run ./mutation -only WAIT  those whose names match
//	go run ./mutation -parallel 4 four at a time, on a machine with more processors
//
// A mutant is a piece of a file and its replacement. The file itself is not touched: go test
// is given an overlay, which also reaches the scripts that the library embeds. Each mutant
// names the test that catches it, which runs alone. If that test passes, all tests of its package
// run: another test may have caught the mutant, and the table must name it. A run that does not
// build has shown nothing, and is an error. One that hangs has not said what is wrong. A mutant
// that no test of the package catches has survived: a test is missing, and the command fails.
package main

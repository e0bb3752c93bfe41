// Package lineage has the tests of docs/lineage.md: the ways to lock on Redis, from SETNX with EXPIRE to RedLock.
// Each is written out as short as it can be, and the fault that breaks it is injected on a real server. The same
// scenario then runs with Holdfast.
//
// A test has two halves, "old way" and "Holdfast". The first asserts the
// flaw: two holders, a lock for ever, another's lock freed. It fails if the
// old way does well. A file has one of the old ways first, and then its tests.
//
// Many old ways run as a scene: their clients take turns command by command, in an order
// that the test gives. The record of a scene is also what the page's picture is drawn
// from. To draw them anew: go test ./lineage -rewrite.
//
// Everything runs on real servers that the tests start. Nothing sleeps; where
// an old lease has to end, the test awaits that its key is gone.
package lineage

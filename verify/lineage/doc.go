// Package lineage holds the tests behind docs/lineage.md: the ways in which
// locks have been made on Redis, from SETNX with EXPIRE to RedLock, each
// written out as short as it can be, with the fault that breaks it really
// injected, so that the flaw is seen. The same scenario then runs with
// Holdfast.
//
// A test has two halves, "old way" and "Holdfast". The first asserts the
// flaw: two holders, a lock for ever, another's lock freed. It fails when the
// old way does well, for then it shows nothing. A file has
// one of the old ways first, and then its tests.
//
// Everything runs on real servers that the tests start. Nothing sleeps; where
// an old lease has to end, the test awaits that its key is gone.
package lineage

// Package crossing tries locks of this library against those of real Redisson. Its tests start
// Redisson in a Java process (package java) and this library in another, and drive both line by line
// with the same commands. Each test runs in both directions: either side holds what the other wants.
//
// The tests need Maven and a Java compiler. They have the build tag redisson, and
// make test-beside BESIDE=redisson runs them.
package crossing

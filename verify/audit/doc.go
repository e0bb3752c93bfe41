// Package audit has the tests of the servers' account, package audit in internal, on real
// servers.
package audit

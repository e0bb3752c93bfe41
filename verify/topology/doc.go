// Package topology holds the promises of docs/guarantees.md against servers
// that replace each other: the nodes of a Cluster, and a primary behind
// Sentinel, with both client libraries. Slots move under load, primaries are
// killed, and links to replicas are cut before.
//
// There is nothing in it but tests.
package topology

// Package adapter is what the stores under store/ share, whatever client library they use. It
// restores subscriptions, on one server or on the nodes of a Cluster. It decides which
// failures are worth another try. It keeps deadlines, and reads the server's refusals.
//
// What it needs of a library, the store passes as functions.
package adapter

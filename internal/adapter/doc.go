// Package adapter is what the stores under store/ have in common whatever
// client library they use: subscriptions that come back by themselves, on one
// server or on the nodes of a Cluster; which failures are worth another try;
// time limits; and the reading of the server's refusals.
//
// What it needs of a library it is given as functions.
package adapter

// Package memstore is a store without a server: the rules of the scripts in plain Go.
//
// It has three purposes.
//
//   - The specification to read. The twin of script/NAME.lua is NAME.go. The
//     rules of record.lua are in record.go and queue.go, under the same names:
//     record.go ends what has expired, says which holds are compatible and
//     grants; queue.go is the wait queue and serves it. The words are those of
//     docs/protocol.md.
//   - The oracle for the scripts. The same steps give the same answers, the same
//     record ([Store.Dump]) and the same pushes here and on a Redis, byte for
//     byte; verify/oracle compares them step by step.
//   - The fake for users' tests. Hand [New] to holdfast.New, and locks work
//     without a server. The store follows Go's clock, so inside a
//     testing/synctest bubble an hour of waiting costs nothing; elsewhere
//     [Store.Advance] lets leases expire. Faults happen on demand: refused
//     actions ([Store.FailRequest]), lost replies ([Store.LoseReply]), a silent server
//     ([Store.Stall]), lost pushes ([Store.DropPushes]), a broken subscription
//     ([Store.BreakSubscriptions]) and lost memory ([Store.Flush]).
//
// It has no network and no persistence. Only clients of this process that share the Store see
// its locks. It is not a Redis server: it knows only the actions of package script.
package memstore

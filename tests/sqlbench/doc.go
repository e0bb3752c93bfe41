// Package sqlbench measures what stands in for a lock in an SQL database, beside Holdfast's mutex, for
// docs/when-not.md:
//
//	go test -run '^$' -bench . -count 5 ./tests/sqlbench
//
// A turn is all that a client does to be alone once. In Alone, one client takes turns; in Crowd,
// eight clients do, each with a connection of its own, and the figure is the time from one turn to
// the next. The databases write each commit to the disk, as they do by default.
package sqlbench

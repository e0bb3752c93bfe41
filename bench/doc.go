// Package bench compares Holdfast with the bare commands of the same client on the same
// server, in the same run. README.md says what each benchmark measures and how to read
// it.
//
// On a shared or small machine an absolute number means little. What counts is the ratio
// of two workloads that alternate. So a benchmark of Holdfast runs its raw counterpart in
// between, in short untimed blocks. It reports the ratio as a metric that begins with
// "x-".
//
// On a machine with few cores, the latency of one goroutine has two modes: client and
// server share a core, or each has its own. The scheduler moves them. To compare
// latencies, pin everything to one core; the server is a child of the benchmark and
// inherits that:
//
//	taskset -c 0 go test -run '^$' -bench Pair -count 5
//
// Throughput and hand-over are measured unpinned.
package bench

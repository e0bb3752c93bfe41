// Package bench measures Holdfast beside the raw limit of the same client on
// the same server, in the same run. README.md says what each benchmark
// measures and how to read it.
//
// On a shared or small machine an absolute number means little: what counts is
// a ratio of two workloads that took turns. So a benchmark of Holdfast runs its
// raw counterpart in between, in short blocks, untimed, and reports the ratio
// as a metric that begins with "x-".
//
// The latency of one goroutine has two modes on a machine of few cores: client
// and server may share a core or have one each, and the scheduler moves them.
// Pin everything to one core to compare latencies, since the server is a child
// of the benchmark and inherits the pinning:
//
//	taskset -c 0 go test -run '^$' -bench Pair -count 5
//
// Throughput and hand-over are measured unpinned.
package bench

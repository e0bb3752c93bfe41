#!/bin/sh
# Runs benchmarks: make bench WHAT=… calls it, see there for what WHAT may be. Results go to bench/results, and
# make bench-page draws them. The rounds are few and the runs several, so that what the machine does meanwhile meets
# everybody.

set -u

go=${GO:-go}
what=$1
results=bench/results
mkdir -p "$results" bin

measure() { "$go" test -C bench -run '^$' -timeout 0 "$@"; }

# into FILE COMMAND…: what it prints goes to the file and to the terminal. go test says FAIL where something failed.
into() {
	file=$1
	shift
	{ "$@" || echo FAILED; } | tee "$file"
	! grep -qE '^FAIL' "$file"
}

# The peers at every workload, the kinds of lock, and the server's cost.
peers() {
	GOWORK=off "$go" build -C bench/etcd -o "$PWD/bin/bench-etcd" . # etcd's lock is a program of its own
	measure -bench Versus -benchtime 3x -count 2 . -etcd "$PWD/bin/bench-etcd" &&
		measure -bench 'Kinds$' -benchtime 1000x -count 3 . &&
		measure -bench 'KindsShared|Scale|ServerCostOfHandOver' -benchtime 1x -count 2 . &&
		measure -bench 'ServerCost$' -benchtime 4000x -count 2 .
}

# The relay puts a round trip in front of the servers of everybody.
latency() {
	for trip in $LATENCIES; do
		{ measure -bench 'Versus/(pair|hand-over-1)$' -benchtime 3x . -latency "$trip" || echo FAILED; } |
			sed "s,^BenchmarkVersus/,BenchmarkFar/$trip/,"
	done
}

redisson() {
	"$go" build -C tests/neighbours -o "$PWD/bin/rate" ./rate
	# shellcheck disable=SC2086 # a list of flags
	sh scripts/redisson.sh bin/rate ${RATEFLAGS:-}
}

case $what in
all) into "$RESULT" measure -bench "$BENCH" -benchmem -count "$COUNT" ./... && echo "== bench: $RESULT" ;;
peers | latency) into "$results/$what.txt" "$what" ;;
# A part of the curves, such as CURVES=waiters, replaces its figures and no others. The lowest value counts.
curves) into "$results/curves.txt" measure -bench "Curves/$CURVES" -benchtime 1x -count "$RUNS" . -most "$MOST" ;;
storm) into "$results/storm.txt" measure -bench Storm -benchtime 1x . -most "$MOST" ;;
servers) into "$results/servers.txt" sh scripts/bench-servers.sh ;;
hops) measure -bench Hops -benchtime 1x . ;;
redisson) redisson ;;
*)
	echo "bench: WHAT=$what is not one of all, peers, curves, storm, servers, latency, hops, redisson" >&2
	exit 1
	;;
esac

#!/bin/sh
# Runs the fault suite over TOPOLOGIES, for DURATION each: make verify calls it, see there. With RECORD, all topologies
# run at the same time and add their rounds to that file.

set -u

suite=bin/verify/holdfast-verify
broken=

one() { # TOPOLOGY DURATION PAGE FLAG…
	topology=$1 duration=$2 page=bin/verify/$3
	shift 3
	echo "== verify: $page"
	# shellcheck disable=SC2086 # a list of flags
	"$suite" --topology "$topology" --duration "$duration" --dir bin/verify --html "$page.html" "$@" ${VERIFYFLAGS:-} ||
		broken="$broken $topology"
}

# Short pauses between acquisitions, few clients with much to do, and rounds that are long enough for what a round
# costs at its ends. What broke leaves its history in bin/verify, and the run goes on.
record() { # TOPOLOGY
	# shellcheck disable=SC2086 # a list of flags
	"$suite" --topology "$1" --duration "$DURATION" --round 90s --rest 0.05 --clients 3 --calm 1s --pairs \
		--record "$RECORD" --dir bin/verify ${VERIFYFLAGS:-} 2>&1 >"bin/verify/$1.txt" || echo "$1" >>bin/verify/broken
}

if [ -z "${RECORD:-}" ]; then
	for topology in $TOPOLOGIES; do
		one "$topology" "$DURATION" "$topology"
		one "$topology" 30s "$topology-thousand" --ttl 3s --works thousand
	done
else
	rm -f bin/verify/broken
	for topology in $TOPOLOGIES; do
		record "$topology" | sed "s/^/$topology: /" &
	done
	wait
	"$suite" --summary "$RECORD" >"${RECORD%.*}.md"
	[ ! -f bin/verify/broken ] || broken=" $(paste -sd' ' bin/verify/broken)"
fi
[ -z "$broken" ] || { echo "== verify: BROKEN on$broken" >&2; exit 1; }
echo "== verify: every promise was kept; see bin/verify"

#!/bin/sh
# Runs what depends on the server on each of the servers that scripts/newer.sh
# unpacks: the adapters' conformance, the transcripts of the scripts, the rules,
# the topologies, the classic locks and the newest commands of docs/lineage.md, and
# a short run of the fault suite. Prints a table, and leaves
# what was said in bin/servers/. make test-all runs all of it, and more, on the
# server of this system.
#
# SERVERS='sid/redis-server'   only these
# SUITES='scripts rules'       only these: adapters scripts rules topologies lineage faults
# DURATION=20s                 of a run of the fault suite

set -u

go=${GO:-go}
suites=${SUITES:-adapters scripts rules topologies lineage faults}
duration=${DURATION:-20s}
out=$PWD/bin/servers

# shellcheck disable=SC2086 # a list of names
servers=$(sh scripts/newer.sh ${SERVERS:-}) || exit 1
mkdir -p "$out"

tests() { # DIRECTORY…
	for directory; do
		(cd "$directory" && "$go" test -count=1 .) || return 1
	done
}

# faults runs the suite on one server, on servers behind Sentinel, and on a quorum.
faults() {
	(cd verify && "$go" build -o "$out/holdfast-verify" ./holdfast-verify) || return 1
	for topology in standalone sentinel quorum; do
		"$out/holdfast-verify" --topology "$topology" --duration "$duration" --dir "$out" || return 1
	done
}

run() { # SUITE PROGRAM
	case $1 in
	adapters) tests store/goredis store/rueidis ;;
	scripts) tests script ;;
	rules)
		case $2 in # the one of pypi is built without TLS, which this test needs
		*/pypi/*) (cd verify/rules && "$go" test -count=1 -skip '^TestNoErrorShowsAPassword$' .) ;;
		*) tests verify/rules ;;
		esac
		;;
	topologies) tests verify/topology ;;
	lineage) tests verify/lineage ;;
	faults) faults ;;
	*)
		echo "there is no suite $1"
		return 1
		;;
	esac
}

status=0
table=
while read -r product version program; do
	row="$product $version"
	for suite in $suites; do
		log=$out/$product-$version-$suite.log
		echo "== $product $version: $suite"
		if HOLDFAST_TEST_SERVER=$program run "$suite" "$program" >"$log" 2>&1; then
			row="$row | $suite"
		else
			row="$row | $suite FAILED"
			status=1
			tail -n 30 "$log"
		fi
	done
	table="$table$row
"
done <<EOT
$servers
EOT
printf '\n%s' "$table"
exit "$status"

#!/bin/sh
# Measures the scripts on the server of this system and on each of those that
# scripts/newer.sh unpacks, for the table of docs/scaling.md. Prints the results.
#
# SERVERS='sid/redis-server'   of the newer ones only these
# RUNS=2                       how often each; the lowest value counts

set -u

go=${GO:-go}
# shellcheck disable=SC2086 # a list of names
newer=$(sh scripts/newer.sh ${SERVERS:-}) || exit 1

status=0
for program in '' $(printf '%s\n' "$newer" | sed 's/^[^ ]* [^ ]* //'); do
	(cd bench && HOLDFAST_TEST_SERVER=$program "$go" test -run '^$' -bench Servers -benchtime 1x \
		-count "${RUNS:-2}" -timeout 0 .) || status=1
done
exit "$status"

#!/bin/sh
# Vets and tests modules. Two lanes run at the same time, so that one compiles while the tests of the other wait for
# a server: one with the race detector, one without. Prints what gotestsum says of each lane, the ten slowest tests,
# and one line with the result. Nothing is tried again: a test that fails now and then is a defect.
#
#   sh scripts/test.sh NAME MODULE…    NAME is what the last line calls the run
#
#   RACED      packages to test with the race detector; all: all of them
#   TWICE      of those, what is also tested without it: random tests are short with it. Instead, their mutexes record
#              in which order they are locked (internal/lockorder)
#   FIRST      packages whose tests wait longest; the others are compiled meanwhile
#   LAST       packages whose tests build what the others have compiled by then
#   LEFT_OUT   packages that are not tested, with those under them
#   AT_ONCE    how many packages of a lane are tested at once; 3 if empty
#   ALONE      yes: vets each module without the workspace, as its users build it
#   RACE       empty: without the race detector, where there is no C compiler
#   TESTFLAGS  more flags for go test, such as -run Name; then nothing is vetted
#   GOTESTSUM  the program; GOTESTSUM_FORMAT is how it prints: standard-verbose, testname, …

set -u

go=${GO:-go}
root=github.com/holdfast-go/holdfast
out=bin/test
name=$1
shift
[ $# -gt 0 ] || { echo "$name: no modules: is go.work here?" >&2; exit 2; }

# Users get builds with -trimpath. Without it here, go would compile every package once for the tests, and once more
# for what the tests build. Whether git trusts this directory does not matter.
GOFLAGS="$("$go" env GOFLAGS) -trimpath -buildvcs=false"
GOTESTSUM_FORMAT=${GOTESTSUM_FORMAT:-standard-quiet}
export GOFLAGS GOTESTSUM_FORMAT

# paths PACKAGE…: their import paths, as far as they are to be tested.
paths() {
	for package; do
		case $package in
		all) cat "$out/packages" ;;
		.) grep -xF "$root" "$out/packages" ;;
		*) grep -xF "$root/$package" "$out/packages" ;;
		esac
	done
}

# without FILE: what is not in it.
without() { grep -vxF -f "$1"; }

# lane NAME FLAG…: tests the packages in $out/NAME.
lane() {
	lane=$1
	shift
	[ -s "$out/$lane" ] || return 0
	# shellcheck disable=SC2046,SC2086 # lists of words
	"$GOTESTSUM" --jsonfile "$out/$lane.json" --hide-summary=skipped -- -vet=off -p "${AT_ONCE:-3}" -timeout 20m "$@" ${TESTFLAGS:-} $(cat "$out/$lane") &&
		return
	sed -n 's/^{.*"Action":"fail","Package":"\([^"]*\)","Elapsed.*/\1/p' "$out/$lane.json" | sed "s|^$root/||" >>"$out/failed"
	[ -s "$out/failed" ] || echo "$lane" >>"$out/failed"
}

# Not all servers that tests can start are open to everybody. These are tested on servers with TLS, least privilege and
# a tenant's prefix too; make test-servers SERVERS=secured does it for all.
secured() {
	paths store/goredis store/rueidis verify/rules >"$out/secured"
	HOLDFAST_TEST_SERVERS=secured
	export HOLDFAST_TEST_SERVERS
	lane secured \
		'-run=Conformance$/^(actions|errors|bytes)$|TestScriptFlushIsNotNoticed|TestAWrongPasswordIsNamed'
}

vet() {
	if [ "${ALONE:-}" != yes ]; then
		# shellcheck disable=SC2046 # a list of packages
		"$go" vet $(cat "$out/packages") || echo 'go vet' >>"$out/failed"
		return
	fi
	for module; do
		(cd "$module" && GOWORK=off "$go" vet ./...) || echo "go vet in $module" >>"$out/failed"
	done
}

# Without cgo, as the tool is built: with it, go would compile the tool a second time.
plain() {
	CGO_ENABLED=0
	export CGO_ENABLED
	lane plain
	[ -n "${TESTFLAGS:-}" ] || secured
}

# What needs little after the race detector, while tests of the other lane wait.
raced() {
	lane raced ${RACE--race}
	CGO_ENABLED=0
	export CGO_ENABLED
	lane ordered -tags=lockorder
	[ -n "${TESTFLAGS:-}" ] || vet "$@"
}

begun=$(date +%s)
rm -rf "$out" && mkdir -p "$out"
: >"$out/failed"
# shellcheck disable=SC2046 # a list of patterns
"$go" list $(for module; do printf ' ./%s/...' "${module#./}"; done) |
	grep -vE "^$root/($(printf '%s' "${LEFT_OUT:-none}" | tr -s ' ' '|'))(/|\$)" | sort -u >"$out/packages"
[ -s "$out/packages" ] || { echo "$name: there are no packages in $*" >&2; exit 2; }
# shellcheck disable=SC2086 # lists of words
{
	paths ${RACED:-} >"$out/raced"
	without "$out/raced" <"$out/packages" >"$out/rest"
	paths ${TWICE:-} >"$out/ordered"
	paths ${FIRST:-} | grep -xF -f "$out/rest" >"$out/first"
	paths ${LAST:-} | grep -xF -f "$out/rest" >"$out/last"
	without "$out/first" <"$out/rest" | without "$out/last" | cat "$out/first" - "$out/last" >"$out/plain"
}

raced "$@" &
plain "$@"
wait

cat "$out"/*.json 2>/dev/null >"$out/events"
echo "== $name: the slowest tests"
"$GOTESTSUM" tool slowest --num 10 --threshold 500ms --jsonfile "$out/events" | sed "s|^$root/||; / 0s$/d"
note=
[ -n "${RACE--race}" ] || note=', without the race detector'
took=$(($(date +%s) - begun))
if [ -s "$out/failed" ]; then
	echo "== $name: FAILED after ${took}s in $(sort -u "$out/failed" | paste -sd' ' -)$note" >&2
	exit 1
fi
echo "== $name: $# of $# modules passed in ${took}s$note"

#!/bin/sh
# Tests beside programs of others, which are large: make test-beside calls it.
#
#   sh scripts/test-beside.sh WHAT…    browser packages java redisson kubernetes
#
# HOLDFAST_INSTALL=no   installs no package of the system, only says what is missing

set -eu

go=${GO:-go}
cd "$(dirname "$0")/.."

beside() { # WHAT
	case $1 in
	browser)
		mkdir -p bin
		"$go" build -C cmd/holdfast -o ../../bin/holdfast .
		"$go" build -C tests -o ../bin/crowd ./observe/crowd
		sh scripts/test-page.sh
		;;
	packages) sh scripts/test-dist.sh ;;
	java) sh scripts/test-java.sh ;;
	redisson)
		crossing=tests/redisson/crossing
		"$go" vet -C "$crossing" -tags redisson ./...
		# shellcheck disable=SC2086 # a list of flags
		sh scripts/redisson.sh "$go" test -C "$crossing" -tags redisson -timeout 20m ${TESTFLAGS:-} ./...
		;;
	kubernetes)
		module=tests/integrate/testdata/kubernetes
		GOWORK=off "$go" vet -C "$module" ./...
		GOWORK=off "$go" test -C "$module" ./...
		;;
	*)
		echo "test-beside: $1 is not one of browser, packages, java, redisson, kubernetes" >&2
		return 1
		;;
	esac
}

for what; do
	echo "== test-beside: $what"
	beside "$what"
done
echo "== test-beside: $# of $# passed"

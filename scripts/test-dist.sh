#!/bin/sh
# Tests what make dist makes, by the programs that read it. Installs those that are missing with
# apt-get: dpkg-deb, systemd-analyze, buildah and unzip.
# HOLDFAST_INSTALL=no   never install, only say what is missing.

set -eu

here=$(cd "$(dirname "$0")/.." && pwd)
say() { printf '%s\n' "test-dist: $*" >&2; }
have() { command -v "$1" >/dev/null 2>&1; }

# missing prints the Debian packages of the programs that are not there.
missing() {
	have dpkg-deb || printf ' dpkg'
	have systemd-analyze || printf ' systemd'
	have buildah || printf ' buildah'
	have unzip || printf ' unzip'
}

want=$(missing)
if [ -n "$want" ] && [ "${HOLDFAST_INSTALL:-}" != no ] && have apt-get; then
	root=
	[ "$(id -u)" -eq 0 ] || root='sudo -n'
	say "installing$want"
	# shellcheck disable=SC2086 # several names
	$root apt-get install -y -q --no-install-recommends $want >&2 ||
		{ $root apt-get update -q >&2 && $root apt-get install -y -q --no-install-recommends $want >&2; } || true
fi
want=$(missing)
[ -z "$want" ] || { say "missing: install$want (names of Debian's packages)"; exit 1; }

cd "$here/packaging"
${GO:-go} test -tags dist -count 1 -timeout 30m "$@" .

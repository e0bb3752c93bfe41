#!/bin/sh
# Tests the page of holdfast serve in a real browser. Installs Debian's chromium
# and nodejs if they are missing, and playwright-core and axe-core in the versions
# that package-lock.json names. Nothing is skipped: what is missing makes it fail.
#
# HOLDFAST_INSTALL=no   never install a package of the system, only say what is missing.
# CHROMIUM=PATH         another browser of the family

set -eu

say() { printf '%s\n' "test-page: $*" >&2; }
have() { command -v "$1" >/dev/null 2>&1; }

missing=
[ -n "${CHROMIUM:-}" ] || have chromium || have chromium-browser || have google-chrome || missing="$missing chromium"
have node || missing="$missing nodejs"
have npm || missing="$missing npm"
if [ -n "$missing" ]; then
	if [ "${HOLDFAST_INSTALL:-}" = no ] || ! have apt-get; then
		say "missing:$missing; install them, and run the same command again"
		exit 1
	fi
	sudo=
	[ "$(id -u)" -eq 0 ] || sudo="sudo -n"
	say "installing$missing"
	$sudo apt-get update -q >&2
	# The names are words of ours: they are to be split.
	# shellcheck disable=SC2086
	$sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends $missing >&2
fi

cd "$(dirname "$0")/../observe/page/browser"
export PLAYWRIGHT_SKIP_BROWSER_DOWNLOAD=1
if ! cmp -s package-lock.json node_modules/installed; then
	npm ci --omit=optional --no-audit --no-fund --ignore-scripts >&2
	cp package-lock.json node_modules/installed
fi
# shellcheck disable=SC2086 # a list of files
exec node --test --test-concurrency=1 --test-reporter=spec ${*:-page.test.mjs states.test.mjs}

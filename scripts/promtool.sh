#!/bin/sh
# Makes sure that there is a promtool for the tests of contrib: on PATH, or in
# bin. Says nothing when there is one. Otherwise it gets Prometheus's package of
# this system, or says what to do and exits 1.
#
# With apt, only promtool is unpacked, into bin: nothing is installed, and no
# Prometheus starts to run.
#
# HOLDFAST_INSTALL=no   get nothing, only say what is missing.

set -eu

say() { printf '%s\n' "promtool: $*" >&2; }
have() { command -v "$1" >/dev/null 2>&1; }
found() { have promtool || [ -x bin/promtool ]; }

as_root() {
	if [ "$(id -u)" -eq 0 ]; then
		"$@"
	elif have sudo; then
		sudo -n "$@"
	else
		say "not root, and there is no sudo"
		return 1
	fi
}

manual() {
	say "the tests of contrib need promtool, which is part of Prometheus, on PATH."
	say "what to do, one of:"
	say "  Debian, Ubuntu   apt-get install prometheus"
	say "  Fedora           dnf install golang-github-prometheus"
	say "  Alpine, Arch     apk add prometheus, pacman -S prometheus"
	say "  macOS            brew install prometheus"
	say "then run the same command again."
	exit 1
}

with_apt() (
	dir=$(mktemp -d)
	trap 'rm -rf "$dir"' EXIT
	chmod 755 "$dir" # apt downloads as a user of its own
	cd "$dir"
	apt-get download -q prometheus || { as_root apt-get update -q && apt-get download -q prometheus; }
	dpkg-deb -x prometheus_*.deb unpacked
	mkdir -p "$OLDPWD/bin"
	mv unpacked/usr/bin/promtool "$OLDPWD/bin/promtool"
)
with_dnf() { as_root dnf install -y -q golang-github-prometheus; }
with_apk() { as_root apk add -q prometheus; }
with_pacman() { as_root pacman -S --noconfirm --needed prometheus; }
with_brew() { brew install -q prometheus; }

if found; then
	exit 0
fi
if [ "${HOLDFAST_INSTALL:-}" = no ]; then
	manual
fi
for manager in apt-get dnf apk pacman brew; do
	have "$manager" || continue
	say "there is none; getting one with $manager"
	"with_${manager%%-*}" >&2 || say "$manager could not get one"
	break
done
found || manual

#!/bin/sh
# Makes sure that PostgreSQL, PgBouncer, MariaDB and an S3 server (versitygw, in bin) are there for the
# tests of the guards in fence. Says nothing when they are. Otherwise it installs the databases with the
# package manager of this system and builds versitygw, or says what to do and exits 1.
#
# The tests start their own servers on free ports and stop them again: only the programs are
# needed, never a running service.
#
# HOLDFAST_INSTALL=no   never install, only say what is missing.

set -eu

say() { printf '%s\n' "databases: $*" >&2; }
have() { command -v "$1" >/dev/null 2>&1; }

# there PROGRAM PATTERN…: on PATH, or in a directory that the tests know, see internal/servertest.
there() {
	have "$1" && return 0
	program=$1
	shift
	for dir in "$@"; do
		[ ! -x "$dir/$program" ] || return 0
	done
	return 1
}
postgres() {
	there initdb /usr/lib/postgresql/*/bin /usr/libexec/postgresql* /opt/homebrew/opt/postgresql*/bin &&
		there postgres /usr/lib/postgresql/*/bin /usr/libexec/postgresql* /opt/homebrew/opt/postgresql*/bin
}
mariadb() {
	there mariadb-install-db /opt/homebrew/opt/mariadb*/bin && there mariadbd /usr/sbin /usr/libexec /opt/homebrew/opt/mariadb*/bin
}

pgbouncer() { there pgbouncer /usr/sbin; }

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

# apt starts the service of a server that it installs. Nobody who runs tests asked for one.
# A fresh machine may be installing its updates: apt-get waits for that, and does not fail at once.
policy=/usr/sbin/policy-rc.d
with_apt() (
	if [ ! -e "$policy" ]; then
		trap 'as_root rm -f "$policy"' EXIT
		as_root sh -c "printf '#!/bin/sh\nexit 101\n' >$policy && chmod 755 $policy"
	fi
	as_root apt-get update -q || say "apt-get update failed; trying with the lists at hand"
	as_root env DEBIAN_FRONTEND=noninteractive NEEDRESTART_SUSPEND=1 \
		apt-get install -y -q --no-install-recommends -o DPkg::Lock::Timeout=120 "$@"
	if [ -d /run/systemd/system ]; then
		for package in "$@"; do
			as_root systemctl disable --quiet "${package%-server}.service" || true
		done
	fi
)

manual() {
	say "the tests of fence need PostgreSQL, PgBouncer and MariaDB; missing:$missing"
	say "what to do, one of:"
	say "  Debian, Ubuntu   apt-get install postgresql pgbouncer mariadb-server"
	say "  Fedora           dnf install postgresql-server pgbouncer mariadb-server"
	say "  Alpine           apk add postgresql pgbouncer mariadb"
	say "  Arch             pacman -S postgresql pgbouncer mariadb"
	say "  macOS            brew install postgresql pgbouncer mariadb"
	say "then run the same command again."
	exit 1
}

# Pinned, as the linter is. No system has a package of it; to build it takes a minute or two. It is built
# without cgo and with -trimpath, as the tests are: so go compiles the standard library once for both.
versitygw=github.com/versity/versitygw/cmd/versitygw@v1.8.0
s3() { there versitygw bin; }

look() {
	missing=
	postgres || missing="$missing postgresql"
	pgbouncer || missing="$missing pgbouncer"
	mariadb || missing="$missing mariadb-server"
	[ -z "$missing" ]
}

s3 || [ "${HOLDFAST_INSTALL:-}" = no ] || {
	say "building $versitygw"
	mkdir -p bin
	GOWORK=off GOFLAGS= CGO_ENABLED=0 GOBIN="$PWD/bin" "${GO:-go}" install -trimpath -ldflags '-s -w' "$versitygw" >&2 || true
}
s3 || {
	say "there is no versitygw, and it could not be built: GOBIN=\$PWD/bin go install $versitygw"
	exit 1
}
look && exit 0
[ "${HOLDFAST_INSTALL:-}" != no ] || manual
if have apt-get; then
	say "installing$missing with apt-get"
	# shellcheck disable=SC2086 # a list of packages
	with_apt $missing >&2 || say "apt-get could not install them"
elif have brew; then
	brew install -q postgresql pgbouncer mariadb || say "brew could not install them"
fi
look || manual

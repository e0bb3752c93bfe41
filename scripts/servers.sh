#!/bin/sh
# Makes sure that a server for the tests is on PATH: redis-server 7.0 or
# valkey-server 7.2, or newer. Says nothing when there is one. Otherwise it
# installs one with the package manager of this system, or says what to do
# and exits 1.
#
# The tests start their own servers on free ports and stop them again: only
# the program is needed, never a running service.
#
# HOLDFAST_INSTALL=no   never install, only say what is missing.

set -eu

say() { printf '%s\n' "servers: $*" >&2; }
have() { command -v "$1" >/dev/null 2>&1; }

# A version is new enough if it is at least 7.0 for Redis, 7.2 for Valkey.
# new_enough PRODUCT VERSION
new_enough() {
	major=${2%%.*}
	rest=${2#*.}
	minor=${rest%%.*}
	case $major$minor in
	'' | *[!0-9]*) return 1 ;;
	esac
	case $1 in
	[Vv]alkey) floor=2 ;;
	*) floor=0 ;;
	esac
	[ "$major" -gt 7 ] || { [ "$major" -eq 7 ] && [ "$minor" -ge "$floor" ]; }
}

# usable tells whether one of the programs is on PATH and new enough. Where
# Valkey has taken the place of Redis, redis-server answers as Valkey: what
# counts is what it says, not what it is called.
usable() {
	found=
	for program in redis-server valkey-server; do
		have "$program" || continue
		line=$("$program" --version 2>/dev/null || true) # Redis server v=7.0.15 sha=…
		product=${line%% *}
		version=$(printf '%s\n' "$line" | sed -n 's/.*[ ]v=\([0-9.]*\).*/\1/p')
		if new_enough "$product" "$version"; then
			return 0
		fi
		found="$found $program ${version:-of unknown version}"
	done
	return 1
}

# as_root runs a command as root. Without a terminal it never asks for a
# password: a script that waits for one in CI waits for ever.
as_root() {
	if [ "$(id -u)" -eq 0 ]; then
		"$@"
	elif ! have sudo; then
		say "not root, and there is no sudo"
		return 1
	elif [ -t 0 ]; then
		sudo "$@"
	else
		sudo -n "$@"
	fi
}

# apt starts and enables the service of a server that it installs. Nobody who
# runs tests asked for one, or for port 6379 to be taken: a policy file keeps
# it from starting, and it is disabled for the next boot. A server that was
# there before and is only upgraded keeps its service as it was.
policy=/usr/sbin/policy-rc.d
policy_is_ours=

allow_services() {
	[ -n "$policy_is_ours" ] || return 0
	policy_is_ours=
	as_root rm -f "$policy"
}

forbid_services() {
	[ ! -e "$policy" ] || return 0 # the system's own policy stands
	policy_is_ours=yes
	trap allow_services EXIT
	trap 'exit 130' INT
	trap 'exit 143' TERM
	as_root sh -c "printf '#!/bin/sh\nexit 101\n' >$policy && chmod 755 $policy"
}

apt_install() {
	as_root env DEBIAN_FRONTEND=noninteractive NEEDRESTART_SUSPEND=1 \
		apt-get install -y -q --no-install-recommends -o DPkg::Lock::Timeout=120 "$1"
}

# apt_one PACKAGE PRODUCT: only if what it would install is new enough.
apt_one() {
	candidate=$(LC_ALL=C apt-cache policy "$1" 2>/dev/null |
		sed -n 's/^ *Candidate: \([0-9]*:\)\{0,1\}\([0-9.]*\).*/\2/p')
	new_enough "$2" "$candidate" || return 1
	if have "$1"; then
		apt_install "$1"
		return
	fi
	forbid_services || return 1
	status=0
	apt_install "$1" || status=$?
	allow_services || true
	if [ -d /run/systemd/system ]; then
		as_root systemctl disable --quiet "$1.service" || true
	fi
	return "$status"
}

with_apt() {
	as_root apt-get update -q || say "apt-get update failed; trying with the lists at hand"
	apt_one redis-server redis || apt_one valkey-server valkey
}

# The other package managers neither start nor enable what they install.
with_dnf() { as_root dnf install -y -q valkey || as_root dnf install -y -q redis; }
with_apk() { as_root apk add -q valkey || as_root apk add -q redis; }
with_pacman() { as_root pacman -S --noconfirm --needed valkey || as_root pacman -S --noconfirm --needed redis; }
with_brew() { brew install -q valkey || brew install -q redis; } # refuses to be root

manual() {
	if [ -n "$found" ]; then
		say "on PATH, but too old:$found"
	fi
	say "the tests need redis-server 7.0 or valkey-server 7.2, or newer, on PATH."
	say "what to do, one of:"
	say "  Debian, Ubuntu   apt-get install redis-server     (Debian 12, Ubuntu 24.04 and later)"
	say "  Fedora           dnf install valkey"
	say "  Alpine           apk add valkey"
	say "  Arch             pacman -S valkey"
	say "  macOS            brew install valkey"
	say "  elsewhere        build either from source; put its src directory on PATH"
	say "then run the same command again."
	exit 1
}

if usable; then
	exit 0
fi

if [ "${HOLDFAST_INSTALL:-}" = no ]; then
	manual
fi

for manager in apt-get dnf apk pacman brew; do
	have "$manager" || continue
	say "no redis-server or valkey-server that is new enough; installing one with $manager"
	"with_${manager%%-*}" >&2 || say "$manager could not install one"
	break
done

if usable; then
	say "installed $product $version"
	exit 0
fi
manual

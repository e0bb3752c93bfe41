#!/bin/sh
# Compiles the Java code of docs/moving against the Redisson that the page is about. Needs Maven,
# which fetches it, and a Java compiler; installs both with apt-get where they are missing.
# HOLDFAST_INSTALL=no   never install, only say what is missing.

set -eu

redisson=4.7.0

here=$(cd "$(dirname "$0")/.." && pwd)
say() { printf '%s\n' "test-java: $*" >&2; }
have() { command -v "$1" >/dev/null 2>&1; }

if ! { have mvn && have javac; } && [ "${HOLDFAST_INSTALL:-}" != no ] && have apt-get; then
	root=
	[ "$(id -u)" -eq 0 ] || root='sudo -n'
	say "installing maven and a Java compiler"
	$root apt-get install -y -q --no-install-recommends maven default-jdk-headless >&2 ||
		{ $root apt-get update -q >&2 &&
			$root apt-get install -y -q --no-install-recommends maven default-jdk-headless >&2; } || true
fi
have mvn && have javac || { say "install Maven and a Java compiler (Debian, Ubuntu: maven default-jdk-headless)"; exit 1; }

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir" # there is no project
mvn -q dependency:copy -Dartifact="org.redisson:redisson:$redisson" -DoutputDirectory="$dir"
javac -Werror -cp "$dir/redisson-$redisson.jar" -d "$dir" "$here"/examples/moving/redisson/*.java
say "compiled against Redisson $redisson"

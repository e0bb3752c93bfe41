#!/bin/sh
# redisson.sh COMMAND…: compiles the Java program of tests/redisson/crossing against Redisson,
# and runs COMMAND with HOLDFAST_REDISSON, the class path with both. Needs Maven, which fetches
# Redisson, and a Java compiler; installs both with apt-get where they are missing.
# HOLDFAST_INSTALL=no   never install, only say what is missing.

set -eu

here=$(cd "$(dirname "$0")/.." && pwd)
java=$here/tests/redisson/crossing/java
out=$here/bin/redisson
say() { printf '%s\n' "redisson: $*" >&2; }
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

mkdir -p "$out"
if ! [ -s "$out/classpath" ] || [ "$java/pom.xml" -nt "$out/classpath" ]; then
	# Maven writes the file only if it has all that the file names.
	mvn -q -B -f "$java/pom.xml" dependency:build-classpath -Dmdep.outputFile="$out/classpath" >&2 || {
		rm -f "$out/classpath"
		say "Maven could not fetch Redisson: is its repository reachable from here?"
		exit 1
	}
fi
jars=$(cat "$out/classpath")
# Each run compiles into a directory of its own, so that none takes the classes of another.
fresh=$(mktemp -d "$out/classes-XXXXXX")
javac -Werror -Xlint:all,-processing,-classfile -cp "$jars" -d "$fresh" "$java"/src/*.java
HOLDFAST_REDISSON=$fresh:$jars
export HOLDFAST_REDISSON
status=0
"$@" || status=$?
rm -rf "$fresh"
exit $status

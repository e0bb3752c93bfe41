#!/bin/sh
# Compiles the Java code of docs/moving against the Redisson that the page is about: the one that
# scripts/redisson.sh gets for our own tests.

set -eu

here=$(cd "$(dirname "$0")/.." && pwd)
[ -n "${HOLDFAST_REDISSON:-}" ] || exec sh "$here/scripts/redisson.sh" sh "$0"

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
javac -Werror -cp "$HOLDFAST_REDISSON" -d "$dir" "$here"/tests/moving/redisson/*.java
version=$(printf '%s' "$HOLDFAST_REDISSON" | sed 's/.*redisson-\([0-9.]*\)\.jar.*/\1/')
printf '%s\n' "test-java: compiled against Redisson $version" >&2

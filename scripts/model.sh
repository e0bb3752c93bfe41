#!/bin/sh
# Searches the models in docs/model: each as it stands, where nothing may be
# found, and each with one rule taken out, where something must. Prints a table
# and exits 1 if one line of it is not as expected.
#
# Needs spin and a C compiler; installs spin with apt-get where it is missing.
# HOLDFAST_INSTALL=no   never install, only say what is missing.

set -eu

here=$(cd "$(dirname "$0")/.." && pwd)
say() { printf '%s\n' "model: $*" >&2; }
have() { command -v "$1" >/dev/null 2>&1; }

if ! have spin && [ "${HOLDFAST_INSTALL:-}" != no ] && have apt-get; then
	root=
	[ "$(id -u)" -eq 0 ] || root='sudo -n'
	say "no spin; installing it"
	$root apt-get install -y -q --no-install-recommends spin >&2 ||
		{ $root apt-get update -q >&2 && $root apt-get install -y -q --no-install-recommends spin >&2; } || true
fi
have spin || { say "spin is missing: install it (Debian, Ubuntu: apt-get install spin)"; exit 1; }
cc=${CC:-cc}
have "$cc" || { say "no C compiler: install gcc, or set CC"; exit 1; }

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

bad=0

# search MODEL EXPECTED WHAT DEFINES...
search() {
	model=$1 expected=$2 what=$3
	shift 3
	rm -rf "$dir/run" && mkdir "$dir/run"
	cp "$here/docs/model/$model.pml" "$dir/run"
	status=ok
	(
		cd "$dir/run"
		spin -a "$@" "$model.pml" >spin.out 2>&1 &&
			"$cc" "${optimize:--O0}" -w -DSAFETY -DNOREDUCE -DNOFAIR -DVECTORSZ=2048 -o pan pan.c >cc.out 2>&1 &&
			./pan -m200000 -n -w"${hash:-22}" >pan.out 2>&1
	) || status=failed
	out=$dir/run/pan.out
	states=$(sed -n 's/^ *\([0-9.e+]*\) states, stored.*/\1/p' "$out" 2>/dev/null || true)
	if [ "$status" = failed ] && [ -z "$states" ]; then
		found="could not be run"
		cat "$dir/run"/*.out >&2
	elif grep -q 'Search not completed' "$out" && ! grep -q '^pan:1:' "$out"; then
		found="not searched to the end"
	elif grep -q 'max search depth too small' "$out"; then
		found="not searched to the end"
	elif grep -q 'invalid end state' "$out" && grep -q '^pan:1: invalid' "$out"; then
		found=stuck
	elif grep -q '^pan:1: assertion' "$out"; then
		found=violated
	elif grep -q 'errors: 0' "$out"; then
		found=nothing
	else
		found="no verdict"
	fi
	[ "$found" = "$expected" ] || { found="$found  <-- WRONG"; bad=$((bad + 1)); }
	printf '%-7s %-34s %-9s %10s  %s\n' "$model" "$what" "$expected" "$states" "$found"
}

printf '%-7s %-34s %-9s %10s  %s\n' model 'rule taken out' expected states found
# The compiler takes longer than most searches: only the long one is worth it.
hash=25 optimize=-O1
search lock nothing 'none: 2 faults, 3 clients' -DFAULTS=2 -DMORE=0
hash=24
search lock nothing 'none: lock-delay, stepped clock' -DFAULTS=1 -DMORE=0 -DDELAY=1 -DSTEPS=1
hash=22 optimize=-O0
for rule in THE_DEADLINE_COUNTS_THE_DELAY A_PUSH_IS_TRUSTED_IN_ITS_DELAY; do
	search lock violated "$rule" -DFAULTS=1 -DMORE=0 -DDELAY=1 -D$rule
done
search lock violated 'no lock-delay, stepped clock' -DFAULTS=1 -DMORE=0 -DSTEPS=1
for rule in RELEASE_WITHOUT_COMPARING RENEWAL_REVIVES HAND_OVER_TO_THE_DEAD CANCEL_LOSES_A_GRANT \
	SAME_TOKEN_AT_HAND_OVER INCR_ONLY DEADLINE_FROM_THE_ANSWER PUSH_COUNTED_FROM_ITS_ARRIVAL NO_TRUST_DEADLINE \
	POLL_LEAVES_THE_DEAD_HOLDER RELEASE_WITHOUT_HAND_OVER RELEASE_BEFORE_THE_CONTEXT_ENDS NEWCOMER_OVERTAKES \
	PUSH_TRUSTED_FOR_A_WHOLE_LEASE ATTEMPT_USED_AGAIN; do
	search lock violated "$rule" -DFAULTS=1 -DMORE=0 -D$rule
done
search lock stuck NO_TIMER_BEHIND_THE_PUSH -DFAULTS=1 -DMORE=0 -DNO_TIMER_BEHIND_THE_PUSH
search lock violated PUSH_FROM_BEFORE_THE_LAST_WORD -DFAULTS=2 -DMORE=0 -DPUSH_FROM_BEFORE_THE_LAST_WORD
search quorum nothing 'none: 3 nodes, 3 clients'
for rule in ONE_NODE_IS_ENOUGH WRITTEN_WITHOUT_HOLDING LATE_NODE_COUNTS ONE_PHASE A_NODE_LOSES_ITS_MEMORY; do
	search quorum violated "$rule" -D$rule
done

[ "$bad" -eq 0 ] || { say "$bad lines are not as expected"; exit 1; }
say "all as expected"

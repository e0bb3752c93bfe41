package target

import (
	"fmt"
	"slices"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exit"
)

// alone is a command or a flag that a quorum cannot carry out, and what to use in its place.
type alone struct {
	what, why, instead string
}

const byOwnID = "each of its servers knows a lock by a different id, and the ids are lost when the process ends"

// notOnQuorum lists them, as docs/quorum.md explains.
var notOnQuorum = []alone{
	{"acquire", byOwnID, "use holdfast run, which renews and releases the lock itself"},
	{"extend", byOwnID, "use holdfast run, which renews the lock itself"},
	{"release", byOwnID, "use holdfast run, which releases the lock itself"},
	{
		"every", "the period is counted by one server's clock, and a quorum has several",
		"use holdfast run --skip-if-held --once-per PERIOD NAME -- COMMAND",
	},
	{
		"--job", "it has no periodic jobs, because the period is counted by one server's clock",
		"for holdfast run --once-per, leave --job out",
	},
	{
		"elect", "there is no single place for a leader's value",
		"use holdfast run, and publish the leader's address elsewhere",
	},
	{
		"--owner", "the processes of one owner would get different tokens",
		"leave --owner out",
	},
	{
		"limit", "it has no permits: each server would count its own",
		"use N locks, such as pool/1 to pool/N, and let each run take one of them",
	},
	{
		"--permits", "each server counts its own permits, so more would be granted than there are",
		"use N locks, such as pool/1 to pool/N, and let each run take one of them",
	},
}

// onQuorum refuses what a quorum cannot carry out, before anything is sent. words are the
// command and its flags. It returns nil for any other topology.
func (s *Server) onQuorum(words ...string) error {
	if len(s.Targets) < 2 {
		return nil
	}
	for _, a := range notOnQuorum {
		if slices.Contains(words, a.what) {
			return exit.Usage(
				fmt.Sprintf("%s does not work on a quorum (%d servers): %s", a.what, len(s.Targets), a.why),
				a.instead+"; or name one server, Sentinels or a Cluster")
		}
	}
	return nil
}

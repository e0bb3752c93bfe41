package quorum

import (
	"context"
	"maps"
	"slices"

	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/script"
)

// What clients tell about themselves, and what their user may do. Example: checkACL on three
// servers, of which server 2 lacks EVALSHA, answers that EVALSHA is missing, and names server 2.
//
// The two need different numbers of servers. If one server refuses a command, the quorum cannot use
// that server, so all answers are looked at. What a client has registered is the same on all
// servers, so one that has it is enough.

// checkACL asks all nodes what their user may not run: if one node lacks a permission, the
// quorum does. The answer has the commands that any node lacks, and the names of those nodes.
func (s *Store) checkACL(ctx context.Context, keys, args []string) (string, error) {
	timeout := s.requestTimeout(ctx, 0)
	answers, err := askEach(ctx, s.servers, func(ctx context.Context, _ int, n *node) (string, error) {
		return n.call(ctx.Done(), timeout, script.CheckACL, keys, args)
	})
	if err != nil {
		return "", err
	}
	said := "permitted"
	var commands, nodes []string
	for _, i := range slices.Sorted(maps.Keys(answers)) {
		answer := answers[i]
		if answer == "unknown" {
			said = answer
		}
		if missing, _ := wire.ParseMissing(answer); len(missing) > 0 {
			commands, nodes = append(commands, missing...), append(nodes, s.nodes[i].name())
		}
	}
	if len(commands) > 0 {
		slices.Sort(commands)
		return wire.MissingAt(slices.Compact(commands), nodes), nil
	}
	return said, nil
}

// registerClient registers the client on all nodes. One that answers is enough.
func (s *Store) registerClient(ctx context.Context, keys, args []string) (string, error) {
	return s.askForFirst(ctx, script.RegisterClient, keys, args, "announced")
}

// readClient reads what is known of a client. The answer of one node is enough.
func (s *Store) readClient(ctx context.Context, keys, args []string) (string, error) {
	return s.askForFirst(ctx, script.ReadClient, keys, args, "client")
}

package quorum

import (
	"context"
	"strings"

	"github.com/holdfast-go/holdfast/script"
)

// checkACL asks all nodes what their user may not run: if one node lacks a permission, the
// quorum does.
func (s *Store) checkACL(ctx context.Context, keys, args []string) (string, error) {
	answers, err := s.askMajority(ctx, script.CheckACL, keys, args)
	if err != nil {
		return "", err
	}
	said := "permitted"
	for _, answer := range answers {
		switch {
		case strings.HasPrefix(answer, "missing "):
			return answer, nil
		case answer == "unknown":
			said = answer
		}
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

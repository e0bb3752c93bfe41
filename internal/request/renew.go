package request

import (
	"context"

	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/script"
	"github.com/holdfast-go/holdfast/store"

	"time"
)

// Renewal asks the server to extend a hold to TTL from now.
type Renewal struct {
	Key, Attempt string
	Owner        string // as the record has it; empty: none
	TTL          time.Duration
}

// Renew renews holds of one group that need the same acknowledgements. Its errors are those
// of [Sender.Run], and wire.ErrAnswer; got is as in [Sender.RunAcked]. limit is the time limit.
func (s *Sender) Renew(ctx context.Context, limit time.Duration, need Acks, holds []Renewal) (
	renewals []wire.Renewal, got store.Acks, err error,
) {
	keys := make([]string, len(holds))
	args := make([]string, 2, 2+len(holds))
	args[0], args[1] = s.Retention, wire.Millis(holds[0].TTL)
	for i, h := range holds {
		ttl := args[1]
		if h.TTL != holds[0].TTL {
			ttl = wire.Millis(h.TTL)
		}
		keys[i], args = h.Key, append(args, wire.LeaseWord(h.Attempt, ttl, h.Owner, args[1]))
	}
	answer, got, err := s.RunAcked(ctx, limit, need, script.Renew, keys, args)
	if err != nil {
		return nil, got, err
	}
	renewals, err = wire.ParseRenewals(answer, len(holds))
	return renewals, got, err
}

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
// of [Sender.Run], and wire.ErrAnswer; got is as in [Sender.RunAcked].
func (s *Sender) Renew(ctx context.Context, need Acks, holds []Renewal) (
	renewals []wire.Renewal, got store.Acks, err error,
) {
	keys := make([]string, len(holds))
	args := make([]string, 1, 1+3*len(holds))
	args[0] = s.Retention
	for i, h := range holds {
		keys[i] = h.Key
		args = append(args, h.Attempt, wire.Millis(h.TTL), h.Owner)
	}
	answer, got, err := s.RunAcked(ctx, need, script.Renew, keys, args)
	if err != nil {
		return nil, got, err
	}
	renewals, err = wire.ParseRenewals(answer, len(holds))
	return renewals, got, err
}

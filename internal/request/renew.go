package request

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/internal/batch"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/script"
	"github.com/holdfast-go/holdfast/store"
)

// Renewal asks the server to extend a hold to TTL from now.
type Renewal struct {
	Key, Attempt string
	Owner        string // as the record has it; empty: none
	TTL          time.Duration
}

// Renew renews holds of one group that need the same acknowledgements. Its errors are those
// of [Sender.Run], and wire.ErrAnswer; got is as in [Sender.RunAcked]. limit is the time limit.
//
// A server refuses a whole request if the user lacks the permission for one of its keys. Then
// Renew asks for the halves, and so on: only the holds that the server refuses have an error.
func (s *Sender) Renew(ctx context.Context, limit time.Duration, need Acks, holds []Renewal) (
	renewals []wire.Renewal, got store.Acks, err error,
) {
	renewals, got, err = s.renewTogether(ctx, limit, need, holds)
	if !batch.ConcernsAKey(err) || len(holds) == 1 {
		return renewals, got, err
	}
	return s.renewApart(ctx, limit, need, holds, err)
}

// renewApart renews the parts of what the server has refused together, and says which holds it
// refuses.
func (s *Sender) renewApart(ctx context.Context, limit time.Duration, need Acks, holds []Renewal, refusal error) (
	renewals []wire.Renewal, got store.Acks, err error,
) {
	renewals = make([]wire.Renewal, len(holds))
	var acks []store.Acks
	for i, err := range batch.Apart(len(holds), refusal, func(from, to int) error {
		some, got, err := s.renewTogether(ctx, limit, need, holds[from:to])
		if err == nil {
			acks = append(acks, got)
			copy(renewals[from:], some)
		}
		return err
	}) {
		if err != nil {
			renewals[i].Err = err
		}
	}
	if len(acks) == 0 {
		return nil, store.Acks{}, refusal
	}
	got = acks[0]
	for _, other := range acks {
		got.Replicas, got.LocalAOF = min(got.Replicas, other.Replicas), min(got.LocalAOF, other.LocalAOF)
		got.ReplicaAOF = min(got.ReplicaAOF, other.ReplicaAOF)
	}
	return renewals, got, nil
}

func (s *Sender) renewTogether(ctx context.Context, limit time.Duration, need Acks, holds []Renewal) (
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

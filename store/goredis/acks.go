package goredis

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/script"
	"github.com/holdfast-go/holdfast/store"
)

// RunAcked implements [store.Acker]: it sends the action, WAIT and WAITAOF in one pipeline.
// The limit must be shorter than a minute, or than the client's ReadTimeout if that is longer.
func (s *Store) RunAcked(
	ctx context.Context, action *script.Script, keys, args []string, need store.Acks, limit time.Duration,
) (string, store.Acks, error) {
	if s.unusable != nil {
		return "", store.Acks{}, s.unusable
	}
	var got store.Acks
	words, key, how := s.words.of("evalsha", action, keys, args), firstOf(keys), urgencyOf(ctx, action)
	answer, err, broke := s.retry.Do(ctx, action.Repeats, func() (string, error) {
		p := newAcked(ctx, words, need, limit)
		err := s.process(ctx, how, key, commands{p.action, p.waits})
		if err != nil && redis.HasErrorPrefix(err, "NOSCRIPT ") {
			words = append([]any{"eval", action.Text}, words[2:]...)
			p = newAcked(ctx, words, need, limit)
			err = s.process(ctx, how, key, commands{p.action, p.waits})
		}
		if err != nil {
			return "", err
		}
		got = p.got()
		return p.action.Val(), nil
	})
	switch {
	case err == nil:
		return answer, got, nil
	case errors.Is(err, redis.Nil):
		return "", got, fmt.Errorf("goredis: script %s answered nil", action.Name)
	}
	return "", store.Acks{}, s.explain(ctx, err, broke)
}

// acked is an action with the commands that wait for its acknowledgements.
type acked struct {
	action  *redis.StringCmd
	wait    *redis.IntCmd
	waitAOF *redis.IntSliceCmd
	waits   []redis.Cmder // wait and waitAOF, as far as they are needed
}

func newAcked(ctx context.Context, words []any, need store.Acks, limit time.Duration) *acked {
	a := &acked{action: redis.NewStringCmd(ctx, words...)}
	if need.Replicas > 0 {
		a.wait = redis.NewIntCmd(ctx, "wait", need.Replicas, limit.Milliseconds())
		a.waits = append(a.waits, a.wait)
	}
	if need.LocalAOF > 0 || need.ReplicaAOF > 0 {
		a.waitAOF = redis.NewIntSliceCmd(ctx, "waitaof", need.LocalAOF, need.ReplicaAOF, limit.Milliseconds())
		a.waits = append(a.waits, a.waitAOF)
	}
	return a
}

func (a *acked) got() (got store.Acks) {
	if a.wait != nil {
		got.Replicas = int(a.wait.Val())
	}
	if a.waitAOF != nil {
		if counts := a.waitAOF.Val(); len(counts) == 2 {
			got.LocalAOF, got.ReplicaAOF = int(counts[0]), int(counts[1])
		}
	}
	return got
}

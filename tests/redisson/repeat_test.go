package redisson_test

import (
	"context"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/compat/redisson"
	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/script"
	"github.com/holdfast-go/holdfast/store/goredis"
)

// repeating sends each release twice, as a store does if the connection broke before the first answer.
type repeating struct {
	*goredis.Store
	repeated bool
}

func (r *repeating) Run(ctx context.Context, s *script.Script, keys, args []string) (string, error) {
	answer, err := r.Store.Run(ctx, s, keys, args)
	if err == nil && s.Name == "release" {
		r.repeated = true
		return r.Store.Run(ctx, s, keys, args)
	}
	return answer, err
}

// A store sends a release again if its answer is lost. The memory of the first one answers for it: the lock was
// held to its end, and another client may hold it by now.
func TestARepeatedReleaseIsAnsweredAsTheFirst(t *testing.T) {
	for _, kind := range everyKind {
		t.Run(kind.String(), func(t *testing.T) {
			s := start(t)
			r := &repeating{Store: open(t, &redis.Options{Addr: s.Addr()})}
			c := clientOf(t, r, redisson.Config{Kind: kind})
			if kind == redisson.Semaphore {
				s.Do(t, "SET", "order", "1")
			}
			l, err := acquirer(c, kind)(t.Context())
			assert.Must(t, err)
			release(t, l)
			same(t, "a release was repeated", r.repeated, true)
		})
	}
}

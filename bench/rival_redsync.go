package bench

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/go-redsync/redsync/v4"
	redsyncredis "github.com/go-redsync/redsync/v4/redis"
	redsyncgoredis "github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/bench/crew"
)

// redsyncSide is redsync with its own defaults, except that the expiry is rawTTL. It
// gives up after 32 tries, so the benchmark calls it again.
type redsyncSide struct {
	sync  *redsync.Redsync
	close func()
}

func openRedsyncGoredis(addr string) (crew.Client, error) {
	rdb := redis.NewClient(&redis.Options{Addr: addr})
	return redsyncSide{redsync.New(redsyncgoredis.NewPool(rdb)), func() { _ = rdb.Close() }}, nil
}

func openRedsyncRueidis(addr string) (crew.Client, error) {
	c, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{addr}, DisableCache: true})
	if err != nil {
		return nil, err
	}
	return redsyncSide{redsync.New(rueidisPool{c}), c.Close}, nil
}

func (s redsyncSide) Enter(_ context.Context, kind, name string) (crew.Enter, error) {
	if kind != "" {
		return nil, errNoKind
	}
	return func(ctx context.Context) (uint64, func(context.Context) error, error) {
		// If two goroutines use one mutex, it forgets the value of the first.
		mu := s.sync.NewMutex(name, redsync.WithExpiry(rawTTL))
		for {
			err := mu.LockContext(ctx)
			if err == nil {
				return 0, func(ctx context.Context) error { _, err := mu.UnlockContext(ctx); return err }, nil
			}
			if ctx.Err() != nil {
				return 0, nil, ctx.Err()
			}
			var taken *redsync.ErrTaken
			if !errors.Is(err, redsync.ErrFailed) && !errors.As(err, &taken) {
				return 0, nil, err
			}
		}
	}, nil
}

func (s redsyncSide) Close() { s.close() }

// rueidisPool lets redsync use rueidis. redsync's own adapter would need one more module.
type rueidisPool struct{ c rueidis.Client }

func (p rueidisPool) Get(ctx context.Context) (redsyncredis.Conn, error) {
	return rueidisConn{p.c, ctx}, nil
}

type rueidisConn struct {
	c   rueidis.Client
	ctx context.Context
}

func (r rueidisConn) Get(name string) (string, error) {
	s, err := r.c.Do(r.ctx, r.c.B().Get().Key(name).Build()).ToString()
	return s, unlessNil(err)
}

func (r rueidisConn) Set(name, value string) (bool, error) {
	err := r.c.Do(r.ctx, r.c.B().Set().Key(name).Value(value).Build()).Error()
	return err == nil, err
}

func (r rueidisConn) SetNX(name, value string, expiry time.Duration) (bool, error) {
	return rawRueidis{r.c}.Set(r.ctx, name, value, expiry)
}

func (r rueidisConn) Eval(script *redsyncredis.Script, keysAndArgs ...any) (any, error) {
	words := make([]string, len(keysAndArgs))
	for i, word := range keysAndArgs {
		switch word := word.(type) {
		case string:
			words[i] = word
		case int:
			words[i] = strconv.Itoa(word)
		default:
			return nil, fmt.Errorf("bench: redsync sends a %T, for which its pool on rueidis has no words", word)
		}
	}
	keys, args := words[:script.KeyCount], words[script.KeyCount:]
	call := r.c.B().Evalsha().Sha1(script.Hash).Numkeys(int64(len(keys))).Key(keys...).Arg(args...).Build()
	v, err := r.c.Do(r.ctx, call).ToAny()
	if e, ok := rueidis.IsRedisErr(err); ok && e.IsNoScript() {
		whole := r.c.B().Eval().Script(script.Src).Numkeys(int64(len(keys))).Key(keys...).Arg(args...).Build()
		v, err = r.c.Do(r.ctx, whole).ToAny()
	}
	return v, unlessNil(err)
}

func (r rueidisConn) ScriptLoad(script *redsyncredis.Script) error {
	return r.c.Do(r.ctx, r.c.B().ScriptLoad().Script(script.Src).Build()).Error()
}

func (r rueidisConn) PTTL(name string) (time.Duration, error) {
	n, err := r.c.Do(r.ctx, r.c.B().Pttl().Key(name).Build()).AsInt64()
	return time.Duration(n) * time.Millisecond, err
}

func (rueidisConn) Close() error { return nil }

func unlessNil(err error) error {
	if rueidis.IsRedisNil(err) {
		return nil
	}
	return err
}

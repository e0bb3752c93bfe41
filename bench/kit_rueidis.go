package bench

import (
	"context"
	"crypto/tls"
	"net"
	"time"

	"github.com/redis/rueidis"

	rueidisstore "github.com/holdfast-go/holdfast/store/rueidis"
)

// openRueidis connects with the default options of rueidis, but without its client-side
// cache, of which a lock makes no use.
func openRueidis(addr string, wrap wrapper) (*party, error) {
	option := rueidis.ClientOption{InitAddress: []string{addr}, DisableCache: true}
	if wrap != nil {
		option.DialCtxFn = func(ctx context.Context, addr string, d *net.Dialer, _ *tls.Config) (net.Conn, error) {
			c, err := d.DialContext(ctx, "tcp", addr)
			if err != nil {
				return nil, err
			}
			return wrap(c), nil
		}
	}
	return newRueidis(option)
}

// openWatched is openRueidis with Watch.
func openWatched(addr string, _ wrapper) (*party, error) {
	return newRueidis(rueidisstore.Watch(rueidis.ClientOption{InitAddress: []string{addr}, DisableCache: true}))
}

func newRueidis(option rueidis.ClientOption) (*party, error) {
	c, err := rueidis.NewClient(option)
	if err != nil {
		return nil, err
	}
	load := c.B().ScriptLoad().Script(compareAndDelete).Build()
	if err := c.Do(context.Background(), load).Error(); err != nil {
		c.Close()
		return nil, err
	}
	return &party{store: rueidisstore.New(c), raw: rawRueidis{c}, close: c.Close}, nil
}

type rawRueidis struct{ c rueidis.Client }

func (r rawRueidis) Set(ctx context.Context, key, value string, ttl time.Duration) (bool, error) {
	err := r.c.Do(ctx, r.c.B().Set().Key(key).Value(value).Nx().Px(ttl).Build()).Error()
	if rueidis.IsRedisNil(err) {
		return false, nil
	}
	return err == nil, err
}

func (r rawRueidis) Extend(ctx context.Context, key string, ttl time.Duration) (bool, error) {
	return r.c.Do(ctx, r.c.B().Pexpire().Key(key).Milliseconds(ttl.Milliseconds()).Build()).AsBool()
}

func (r rawRueidis) Unset(ctx context.Context, key, value string) error {
	return r.c.Do(ctx, r.c.B().Evalsha().Sha1(compareAndDeleteSHA).Numkeys(1).Key(key).Arg(value).Build()).Error()
}

func (r rawRueidis) Push(ctx context.Context, list, token string) error {
	return r.c.Do(ctx, r.c.B().Rpush().Key(list).Element(token).Build()).Error()
}

func (r rawRueidis) Pop(ctx context.Context, list string) (string, error) {
	got, err := r.c.Do(ctx, r.c.B().Blpop().Key(list).Timeout(0).Build()).AsStrSlice()
	if err != nil {
		return "", err
	}
	return got[1], nil
}

func (r rawRueidis) Load(ctx context.Context, text string) (string, error) {
	return r.c.Do(ctx, r.c.B().ScriptLoad().Script(text).Build()).ToString()
}

func (r rawRueidis) Eval(ctx context.Context, sha, key string, args ...string) (string, error) {
	return r.c.Do(ctx, r.c.B().Evalsha().Sha1(sha).Numkeys(1).Key(key).Arg(args...).Build()).ToString()
}

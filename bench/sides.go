package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/bench/crew"
)

// side is one lock on one client library.
type side struct {
	name     string
	kit      string // the client library
	open     func(addr string) (crew.Client, error)
	scripted []string // commands that only its scripts call
}

// ours, plain and bare are each kit's Holdfast, with two kinds of context, and raw commands.
func ours(k kit) side {
	return side{name: "holdfast-" + k.name, kit: k.name, open: func(addr string) (crew.Client, error) {
		p, err := k.open(addr)
		if err != nil {
			return nil, err
		}
		c, err := holdfast.New(p.store, holdfast.Config{TTL: rawTTL})
		return ourSide{p, c}, err
	}}
}

// plain is ours with a context that never ends. All others have one that can be cancelled, as a program has.
func plain(k kit) side {
	s := ours(k)
	s.name += "-plain"
	open := s.open
	s.open = func(addr string) (crew.Client, error) {
		c, err := open(addr)
		return endless{c}, err
	}
	return s
}

// endless is a client whose calls nobody can cancel.
type endless struct{ crew.Client }

func (e endless) Enter(ctx context.Context, kind, name string) (crew.Enter, error) {
	enter, err := e.Client.Enter(ctx, kind, name)
	return func(context.Context) (uint64, func(context.Context) error, error) {
		seq, leave, err := enter(context.Background())
		return seq, func(context.Context) error { return leave(context.Background()) }, err
	}, err
}

func bare(k kit) side {
	return side{name: "raw-" + k.name, kit: k.name, open: func(addr string) (crew.Client, error) {
		p, err := k.open(addr)
		return bareSide{p}, err
	}}
}

// rivals are the locks of others.
var rivals = []side{
	{name: "redsync-goredis", kit: "goredis", open: openRedsyncGoredis},
	{name: "redsync-rueidis", kit: "rueidis", open: openRedsyncRueidis},
	{name: "redislock-goredis", kit: "goredis", open: openRedislock, scripted: []string{"set", "getrange"}},
	{name: "rueidislock1-rueidis", kit: "rueidis", open: openRueidislock1, scripted: []string{"set", "pexpireat"}},
	{name: "rueidislock3-rueidis", kit: "rueidis", open: openRueidislock3, scripted: []string{"set", "pexpireat"}},
}

// sides are all of them, by the kit of each.
func sides() []side {
	var all []side
	for _, k := range kits {
		all = append(all, ours(k), plain(k), bare(k))
	}
	return append(all, rivals...)
}

func openSide(name, addr string) (crew.Client, error) {
	all := sides()
	i := slices.IndexFunc(all, func(s side) bool { return s.name == name })
	if i < 0 {
		return nil, fmt.Errorf("bench: no side is called %q", name)
	}
	return all[i].open(addr)
}

// errNoKind is the error of a side that does not have the kind of lock.
var errNoKind = errors.New("bench: this side has only a mutex")

// ourSide is Holdfast.
type ourSide struct {
	p *party
	c *holdfast.Client
}

func (s ourSide) Enter(_ context.Context, kind, name string) (crew.Enter, error) {
	if kind != "" {
		return enterKind(s.c, kind, name)
	}
	return again(enterLock(s.c.Mutex(name))), nil
}

// again repeats a request that got no answer in time: that may happen when a thousand
// clients begin at the same time on a busy machine. A release without an answer counts as
// done. If it did not arrive, the waits of the others show it.
func again(enter crew.Enter) crew.Enter {
	return func(ctx context.Context) (uint64, func(context.Context) error, error) {
		for {
			seq, leave, err := enter(ctx)
			if errors.Is(err, holdfast.ErrUnknownOutcome) && ctx.Err() == nil {
				continue
			}
			return seq, func(ctx context.Context) error {
				if err := leave(ctx); !errors.Is(err, holdfast.ErrUnknownOutcome) {
					return err
				}
				return nil
			}, err
		}
	}
}

func (s ourSide) Close() {
	_ = s.c.Close(context.Background())
	s.p.close()
}

// Kinds of the raw side.
const (
	kindKey   = "key"   // SET NX PX and compare-and-delete, for a lock without contention
	kindToken = "token" // a token by RPUSH and BLPOP, for a contended lock
)

// bareSide is nothing but commands.
type bareSide struct{ p *party }

func (s bareSide) Enter(_ context.Context, kind, name string) (crew.Enter, error) {
	switch kind {
	case kindKey:
		return enterKey(s.p.raw, name), nil
	case kindToken:
		return enterToken(s.p.raw, name), nil
	}
	return nil, errNoKind
}

func (s bareSide) Close() { s.p.close() }

func enterLock(mu *holdfast.Mutex) crew.Enter {
	return func(ctx context.Context) (uint64, func(context.Context) error, error) {
		return entered(mu.Lock(ctx))
	}
}

func entered(l *holdfast.Lease, err error) (uint64, func(context.Context) error, error) {
	if err != nil {
		return 0, nil, err
	}
	return l.Token(), l.Release, nil
}

// enterKey sets a key that no other goroutine wants.
func enterKey(r raw, key string) crew.Enter {
	var n uint64
	return func(ctx context.Context) (uint64, func(context.Context) error, error) {
		n++
		value := key + "/" + strconv.FormatUint(n, 10)
		ok, err := r.Set(ctx, key, value, rawTTL)
		if err == nil && !ok {
			err = errTaken
		}
		return n, func(ctx context.Context) error { return r.Unset(ctx, key, value) }, err
	}
}

// enterToken waits for the one token in the list, which is a number, and returns it as
// the next number.
func enterToken(r raw, list string) crew.Enter {
	return func(ctx context.Context) (uint64, func(context.Context) error, error) {
		token, err := r.Pop(ctx, list)
		if err != nil {
			return 0, nil, err
		}
		n, err := strconv.ParseUint(token, 10, 64)
		leave := func(ctx context.Context) error { return r.Push(ctx, list, strconv.FormatUint(n+1, 10)) }
		return n, leave, err
	}
}

// rawTTL is the TTL of raw locks and of the rivals' locks: the default of Holdfast.
const rawTTL = 30 * time.Second

var errTaken = errors.New("a raw lock is taken that nobody else uses")

package bench

import (
	"context"

	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"

	"github.com/holdfast-go/holdfast/bench/crew"
)

// rueidislockSide is rueidislock: with one key of a lock and NOLOOP, as its
// README advises, or with its own defaults, three keys on the one server.
type rueidislockSide struct{ locker rueidislock.Locker }

func openRueidislock1(addr string) (crew.Client, error) {
	return openRueidislock(addr, rueidislock.LockerOption{KeyMajority: 1, NoLoopTracking: true})
}

func openRueidislock3(addr string) (crew.Client, error) {
	return openRueidislock(addr, rueidislock.LockerOption{})
}

func openRueidislock(addr string, o rueidislock.LockerOption) (crew.Client, error) {
	o.ClientOption = rueidis.ClientOption{InitAddress: []string{addr}}
	locker, err := rueidislock.NewLocker(o)
	return rueidislockSide{locker}, err
}

func (s rueidislockSide) Enter(_ context.Context, kind, name string) (crew.Enter, error) {
	if kind != "" {
		return nil, errNoKind
	}
	return func(ctx context.Context) (uint64, func(context.Context) error, error) {
		_, cancel, err := s.locker.WithContext(ctx, name)
		// cancel releases the lock, and returns no error.
		return 0, func(context.Context) error { cancel(); return nil }, err
	}, nil
}

func (s rueidislockSide) Close() { s.locker.Close() }

package fence_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/fence/redisfence"
	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/quorum"
	"github.com/holdfast-go/holdfast/script"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/goredis"
	rueidisstore "github.com/holdfast-go/holdfast/store/rueidis"
)

// adapters make stores on servers: one address is a server, several are a Cluster.
var adapters = map[string]func(t *testing.T, addrs ...string) store.Store{
	"goredis": func(t *testing.T, addrs ...string) store.Store {
		rdb := redis.NewUniversalClient(&redis.UniversalOptions{Addrs: addrs})
		t.Cleanup(func() { _ = rdb.Close() })
		return goredis.New(rdb)
	},
	"rueidis": func(t *testing.T, addrs ...string) store.Store {
		client, err := rueidis.NewClient(rueidis.ClientOption{
			InitAddress: addrs, ForceSingleClient: len(addrs) == 1,
		})
		assert.Must(t, err)
		t.Cleanup(client.Close)
		return rueidisstore.New(client)
	},
}

func forEachAdapter(t *testing.T, test func(t *testing.T, open func(t *testing.T, addrs ...string) store.Store)) {
	for name, open := range adapters {
		t.Run(name, func(t *testing.T) { test(t, open) })
	}
}

func TestAWriteToRedisUnderAnOlderTokenIsRefused(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	forEachAdapter(t, func(t *testing.T, open func(*testing.T, ...string) store.Store) {
		server.Do(t, "FLUSHALL")
		guard := redisfence.Guard{Store: open(t, server.Addr())}
		write := func(token uint64) error {
			return guard.Do(within(t), "account", token, redisfence.Write("INCR", "account"))
		}
		for _, c := range []struct {
			token uint64
			err   error
		}{
			{5, nil}, {5, nil}, {4, fence.ErrStale}, {70, nil}, {8, fence.ErrStale}, {69, fence.ErrStale},
			// Beyond the numbers that Lua can tell apart.
			{math.MaxInt64 - 1, nil}, {math.MaxInt64, nil}, {math.MaxInt64 - 1, fence.ErrStale},
			{math.MaxInt64 + 1, fence.ErrInvalid}, {0, fence.ErrInvalid},
		} {
			want(t, "write", write(c.token), c.err)
		}
		assert.Equal(t, server.Do(t, "GET", "account"), "5", "writes")
		var stale *fence.StaleError
		last := fence.StaleError{Resource: "account", Token: 9, Seen: math.MaxInt64}
		err := write(9)
		assert.True(t, errors.As(err, &stale) && *stale == last, "got %v", err)
		seen, err := guard.Seen(within(t), "account")
		assert.True(t, seen == math.MaxInt64 && err == nil, "seen %d, %v", seen, err)
		want(t, "Reset", guard.Reset(within(t), "account"), nil)
		seen, err = guard.Seen(within(t), "account")
		assert.True(t, seen == 0 && err == nil, "after a reset: seen %d, %v", seen, err)
		want(t, "Raise", guard.Raise(within(t), "account", 2), nil)
		want(t, "a write below what was only shown", write(1), fence.ErrStale)
		assert.Equal[any](t, server.Do(t, "TTL", "fence:{account}"), int64(-1), "the guard's key expires: TTL")
	})
}

// The commands run as they were given, and a refused one ends the row.
func TestCommandsRunInOrderUntilOneIsRefused(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	guard := redisfence.Guard{Store: adapters["goredis"](t, server.Addr()), Prefix: "tokens:"}
	want(t, "Do", guard.Do(within(t), "a", 1,
		redisfence.Write("SET", "a", "with spaces\nand lines"),
		redisfence.Command{Name: "RENAME", Keys: []string{"a", "b"}},
		redisfence.Write("HSET", "h", "one", "1", "two", "2"),
		redisfence.Command{Name: "PUBLISH", Args: []string{"news", "b"}},
	), nil)
	assert.Equal(t, server.Do(t, "GET", "b"), "with spaces\nand lines", "the value")
	err := guard.Do(within(t), "a", 1,
		redisfence.Write("SET", "c", "1"), redisfence.Write("INCR", "h"), redisfence.Write("SET", "c", "2"))
	var refused *redisfence.CommandError
	assert.True(t, errors.As(err, &refused) && refused.Number == 2 && refused.Name == "INCR",
		"want the refusal of the second command, INCR, got %v", err)
	got := server.Do(t, "GET", "c")
	assert.True(t, got == "1", "c is %v: the first command is to have run, and the third one not", got)
	server.Do(t, "SET", "tokens:{foreign}", "1")
	var failed *store.ServerError
	err = guard.Do(within(t), "foreign", 1, redisfence.Write("SET", "c", "3"))
	assert.True(t, errors.As(err, &failed), "the guard's key has a foreign value: %v", err)
	server.Do(t, "HSET", "tokens:{odd}", "token", "7")
	err = guard.Do(within(t), "odd", 1, redisfence.Write("SET", "c", "3"))
	assert.True(t, errors.As(err, &failed), "the guard's key has a foreign token: %v", err)
	got = server.Do(t, "GET", "c")
	assert.True(t, got == "1", "c is %v: a refused step has written", got)
	for what, bad := range map[string]error{
		"no store":       redisfence.Guard{}.Do(within(t), "a", 1),
		"a brace":        redisfence.Guard{Store: guard.Store, Prefix: "{a}"}.Do(within(t), "a", 1),
		"a nameless one": guard.Do(within(t), "a", 1, redisfence.Write("", "a")),
		"no resource":    guard.Do(within(t), "", 1),
		"its own key":    guard.Do(within(t), "a", 1, redisfence.Write("RENAME", "a", "tokens:{a}")),
	} {
		want(t, what, bad, fence.ErrInvalid)
	}
}

// A command of too many words would fail in the middle of the others. So it is refused before anything is sent.
func TestACommandOfTooManyWordsChangesNothing(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	guard := redisfence.Guard{Store: adapters["goredis"](t, server.Addr())}
	most := redisfence.Write("RPUSH", "most", slices.Repeat([]string{"x"}, 6998)...)
	want(t, "the most words", guard.Do(within(t), "a", 1, most, most), nil)
	assert.Equal[any](t, server.Do(t, "LLEN", "most"), int64(2*6998), "what the commands have written")
	more := redisfence.Write("RPUSH", "more", slices.Repeat([]string{"x"}, 6999)...)
	err := guard.Do(within(t), "a", 2, redisfence.Write("SET", "b", "1"), more)
	want(t, "one word more", err, fence.ErrInvalid)
	assert.Equal[any](t, server.Do(t, "EXISTS", "b", "more"), int64(0), "what was written")
}

// A server that is full refuses writes whole. It still tells its tokens, and forgets one.
func TestAFullServerTellsAndForgetsItsTokens(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	guard := redisfence.Guard{Store: adapters["goredis"](t, server.Addr())}
	want(t, "Raise", guard.Raise(within(t), "a", 5), nil)
	server.Do(t, "CONFIG", "SET", "maxmemory", "1")
	var full *store.ServerError
	err := guard.Do(within(t), "a", 6, redisfence.Write("DEL", "b"))
	assert.True(t, errors.As(err, &full) && full.Code == "OOM", "a write to a full server: %v", err)
	seen, err := guard.Seen(within(t), "a")
	assert.True(t, err == nil && seen == 5, "seen %d, %v", seen, err)
	want(t, "Reset", guard.Reset(within(t), "a"), nil)
}

// If the answer is lost, the client library sends the request again: it takes effect once.
func TestALostAnswerDoesNotRepeatAWrite(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	forEachAdapter(t, func(t *testing.T, open func(*testing.T, ...string) store.Store) {
		server.Do(t, "FLUSHALL")
		proxy := redistest.NewProxy(t, server.Addr())
		guard := redisfence.Guard{Store: open(t, proxy.Addr())}
		incr := redisfence.Write("INCR", "n")
		want(t, "the first", guard.Do(within(t), "n", 5, incr), nil) // the server knows the script now
		proxy.DropRepliesAndCut(1, "EVALSHA")
		want(t, "the second", guard.Do(within(t), "n", 5, incr), nil)
		assert.Equal(t, server.Do(t, "GET", "n"), "2", "n after two calls, of which one was sent twice")
		proxy.DropRepliesAndCut(1, "EVALSHA")
		err := guard.Do(within(t), "n", 5, redisfence.Write("HSET", "n", "a", "b"))
		_, refused := errors.AsType[*redisfence.CommandError](err)
		assert.True(t, refused, "a refused command, sent twice: %v", err)
	})
}

// breaking is a store whose first request, if it is sent, and others have their effect before its connection breaks.
type breaking struct {
	redisfence.Runner
	sent   bool
	others func()
}

var errBroken = errors.New("the connection broke")

func (b *breaking) Run(ctx context.Context, s *script.Script, keys, args []string) (string, error) {
	others := b.others
	if b.others = nil; others == nil {
		return b.Runner.Run(ctx, s, keys, args)
	}
	if b.sent {
		if _, err := b.Runner.Run(ctx, s, keys, args); err != nil {
			return "", err
		}
	}
	others()
	return "", errBroken
}

// Whether the first copy of a write ran, and whatever came before the second: the write is made once, or the error
// does not deny it.
func TestAWriteWhoseConnectionBreaksIsMadeOnceOrUnknown(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	plain := redisfence.Guard{Store: adapters["goredis"](t, server.Addr())}
	incr := redisfence.Write("INCR", "n")
	for _, c := range []struct {
		sent   bool
		others int
		newer  bool
		err    error
		n      any
	}{
		{true, 0, false, nil, "1"}, {true, 19, false, nil, "1"}, {true, 20, false, errBroken, "1"},
		{true, 18, true, nil, "1"}, {true, 19, true, errBroken, "1"},
		{false, 0, false, nil, "1"}, {false, 19, false, nil, "1"}, {false, 20, false, errBroken, nil},
		{false, 0, true, fence.ErrStale, nil}, {false, 20, true, errBroken, nil},
	} {
		server.Do(t, "FLUSHALL")
		b := &breaking{Runner: plain.Store, sent: c.sent, others: func() {
			for range c.others {
				want(t, "another", plain.Raise(within(t), "n", 5), nil)
			}
			if c.newer {
				want(t, "a newer one", plain.Raise(within(t), "n", 6), nil)
			}
		}}
		err := redisfence.Guard{Store: b}.Do(within(t), "n", 5, incr)
		want(t, fmt.Sprintf("%+v", c), err, c.err)
		assert.Equal(t, server.Do(t, "GET", "n"), c.n, "%+v: n", c)
	}
}

func TestInAClusterAResourceAndItsKeysAreInOneSlot(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t)
	forEachAdapter(t, func(t *testing.T, open func(*testing.T, ...string) store.Store) {
		guard := redisfence.Guard{Store: open(t, cluster.Addrs()...)}
		for _, c := range []struct{ resource, key string }{
			{"a", "a"}, {"b", "b"}, {"c", "c"}, // on all three primaries
			{"{a}", "{a}:x"}, {"x{a}y", "{a}:x"}, {"a", "{a}:x"}, {"{a}:x", "a"},
		} {
			err := guard.Do(within(t), c.resource, 5, redisfence.Write("SET", c.key, "1"))
			want(t, c.resource+" and "+c.key, err, nil)
			err = guard.Do(within(t), c.resource, 4, redisfence.Write("SET", c.key, "2"))
			want(t, "late: "+c.resource+" and "+c.key, err, fence.ErrStale)
			assert.Equal(t, cluster.Do(t, c.key, "GET", c.key), "1", "%s", c.key)
			cluster.Do(t, c.key, "DEL", c.key)
			want(t, "Reset", guard.Reset(within(t), c.resource), nil)
		}
		err := guard.Do(within(t), "a", 5, redisfence.Write("SET", "a", "1"), redisfence.Write("SET", "b", "1"))
		want(t, "keys of two slots", err, fence.ErrInvalid)
		err = guard.Do(within(t), "a{}b", 5, redisfence.Write("SET", "a{}b", "1"))
		want(t, "braces that are no hash tag", err, fence.ErrInvalid)
		got := cluster.Do(t, "a", "GET", "a")
		assert.True(t, got == nil, "a refused call has written %v", got)
	})
}

// The rights in docs/fencing.md are enough, and without one of them nothing is written.
func TestTheRightsOfAGuardAreThoseOfThePage(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "fencing.md"))
	assert.Must(t, err)
	rights := regexp.MustCompile("`(~fence:.*)`, and `(.*)` for `Reset`").FindStringSubmatch(string(page))
	assert.MustTrue(t, rights != nil, "docs/fencing.md names no rights")
	server := redistest.Start(t)
	guard := func(rights ...string) redisfence.Guard {
		user := words("ACL SETUSER app reset on >secret ~n +incr +@connection")
		assert.MustEqual(t, server.Do(t, append(user, words(rights...)...)...), "OK", "ACL SETUSER")
		rdb := redis.NewClient(&redis.Options{Addr: server.Addr(), Username: "app", Password: "secret"})
		t.Cleanup(func() { _ = rdb.Close() })
		return redisfence.Guard{Store: goredis.New(rdb)}
	}
	incr := redisfence.Write("INCR", "n")
	all := guard(rights[1:]...)
	want(t, "Do", all.Do(within(t), "n", 5, incr), nil)
	_, err = all.Seen(within(t), "n")
	want(t, "Seen", err, nil)
	want(t, "Reset", all.Reset(within(t), "n"), nil)
	for right := range strings.FieldsSeq(rights[1]) {
		if right == "+eval" || right == "+hget" {
			continue // the server knows the script; only Seen reads by it
		}
		missing := "-" + strings.TrimPrefix(right, "+")
		if strings.HasPrefix(right, "~") {
			missing = "resetkeys"
		}
		var refused *store.ServerError
		err := guard(append(rights[1:], missing)...).Do(within(t), "n", 5, incr)
		assert.True(t, errors.As(err, &refused), "without %s: %v", right, err)
	}
	n := server.Do(t, "GET", "n")
	assert.True(t, n == "1", "n is %v: what was refused has written", n)
}

func words(texts ...string) (all []any) {
	for _, text := range texts {
		for word := range strings.FieldsSeq(text) {
			all = append(all, word)
		}
	}
	return all
}

// Several servers are not one resource.
func TestAQuorumRefusesToBeAResource(t *testing.T) {
	t.Parallel()
	var nodes []store.Store
	for range 3 {
		nodes = append(nodes, adapters["goredis"](t, redistest.Start(t).Addr()))
	}
	several, err := quorum.New(nodes, quorum.Config{})
	assert.Must(t, err)
	t.Cleanup(several.Close)
	guard := redisfence.Guard{Store: several}
	want(t, "Do", guard.Do(within(t), "a", 5, redisfence.Write("SET", "a", "1")), quorum.ErrUnsupported)
}

// No command takes the token away: not one that removes all keys, nor one on the guard's own key.
func TestACommandDoesNotRemoveTheToken(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.AllowAll())
	guard := redisfence.Guard{Store: adapters["goredis"](t, server.Addr())}
	want(t, "FLUSHDB", guard.Do(within(t), "a", 5, redisfence.Command{Name: "FLUSHDB"}), nil)
	want(t, "a late write", guard.Do(within(t), "a", 4, redisfence.Write("SET", "a", "late")), fence.ErrStale)
	for _, c := range []redisfence.Command{
		redisfence.Write("DEL", "fence:{a}"), {Name: "RENAME", Keys: []string{"{a}", "fence:{a}"}},
	} {
		want(t, c.Name, guard.Do(within(t), "a", 5, c), fence.ErrInvalid)
	}
	assert.Equal[any](t, server.Do(t, "EXISTS", "a"), int64(0), "what was written")
}

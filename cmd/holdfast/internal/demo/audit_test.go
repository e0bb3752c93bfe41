package demo

import (
	"context"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/script"
	"github.com/holdfast-go/holdfast/store/goredis"
)

// recordKey is where the lock's record is (docs/protocol.md, Keys).
const recordKey = "holdfast:{" + lockName + "}"

// fixture is an embedded server and an audited client of it.
func fixture(t *testing.T) (*redis.Client, auditStore, *holdfast.Client) {
	t.Helper()
	s, err := startEmbedded()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.stop)
	rdb := redis.NewClient(serverOptions(s.Addr))
	t.Cleanup(func() { rdb.Close() })
	store := newAuditStore(goredis.New(rdb))
	client, err := holdfast.New(store, holdfast.Config{TTL: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close(context.Background()) })
	return rdb, store, client
}

func recorded(t *testing.T, rdb *redis.Client) history {
	t.Helper()
	changes, err := readAudit(t.Context(), rdb)
	if err != nil {
		t.Fatal(err)
	}
	return replay(changes)
}

func TestAuditNotesEveryHold(t *testing.T) {
	rdb, _, client := fixture(t)
	mutex := client.Mutex(lockName)
	var tokens []uint64
	for range 3 {
		lease, err := mutex.Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		tokens = append(tokens, lease.Token()/passes)
		if err := lease.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	h := recorded(t, rdb)
	if len(h.Holds) != len(tokens) || len(h.Faults) > 0 || overlaps(h.Holds) != 0 {
		t.Fatalf("%d holds were noted as %+v", len(tokens), h)
	}
	for i, held := range h.Holds {
		if held.Fence != tokens[i] || !held.Released {
			t.Errorf("hold with token %d was noted as %+v", tokens[i], held)
		}
	}
}

// A lock that is broken on purpose: whoever asks is granted. The account must
// show it, or the verdict would mean nothing.
func TestAuditExposesABrokenLock(t *testing.T) {
	rdb, store, client := fixture(t)
	held, err := client.Mutex(lockName).Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer runtime.KeepAlive(held) // a lease that nobody has any more is released
	broken := audited(&script.Script{Name: "acquire", Text: `
local fence = string.match(redis.call('HGET', KEYS[1], 'lock'), '^%d+')
redis.call('HSET', KEYS[1], 'lock', string.format('%d', fence + 1) .. ' 60000 ' .. ARGV[1])
return 'granted 1 0'
`})
	if _, err := store.Store.Run(t.Context(), broken, []string{recordKey}, []string{"b/1"}); err != nil {
		t.Fatal(err)
	}
	h := recorded(t, rdb)
	if len(h.Holds) != 2 || overlaps(h.Holds) != 1 {
		t.Errorf("two holders at once were noted as %+v", h)
	}
}

// What happens past the actions cannot be noted when it happens, but the next
// action finds another record than the last one left.
func TestAuditNoticesAForeignChange(t *testing.T) {
	rdb, _, client := fixture(t)
	lease, err := client.Mutex(lockName).Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	lock, err := rdb.HGet(t.Context(), recordKey, "lock").Result()
	if err != nil {
		t.Fatal(err)
	}
	fence, holder, _ := strings.Cut(lock, " ")
	n, err := strconv.ParseInt(fence, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	if err := rdb.HSet(t.Context(), recordKey, "lock", fmt.Sprint(n+1, " ", holder)).Err(); err != nil {
		t.Fatal(err)
	}
	if err := lease.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	if h := recorded(t, rdb); len(h.Faults) == 0 {
		t.Errorf("a change by hand was not noticed in %+v", h)
	}
}

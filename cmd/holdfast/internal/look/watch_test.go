package look

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/lockjson"
)

func TestChangesAreTold(t *testing.T) {
	at := time.Unix(1000, 0)
	lock := func(token uint64, left time.Duration, waiters int) holdfast.LockInfo {
		info := holdfast.LockInfo{Name: "x", Fence: token, Waiters: make([]holdfast.Waiter, waiters)}
		info.Holders = []holdfast.Holder{{Token: token, ClientID: "c", Remaining: left}}
		return info
	}
	held := func(token uint64, waiters int) holdfast.LockInfo { return lock(token, 20*time.Second, waiters) }
	free := holdfast.LockInfo{Name: "x"}
	evicted := held(3, 0)
	evicted.LastEviction = &holdfast.EvictionInfo{At: at, By: "ann", Reason: "stuck"}
	two := held(1, 0)
	two.Holders = append(two.Holders, lock(2, time.Second, 0).Holders...)
	kept := lock(1, time.Second, 0)
	kept.Holders[0].Released = true
	for _, c := range []struct {
		what          string
		before, after holdfast.LockInfo
		want          string
	}{
		{"nothing", held(1, 1), held(1, 1), ""},
		{"a grant", free, held(1, 0), "held"},
		{"a hand-over", held(1, 1), held(2, 0), "held waiting"},
		{"a release", held(1, 0), free, "released"},
		{"a record that is gone", held(1, 0), holdfast.LockInfo{}, "released"},
		{"a lease that ran out", lock(1, time.Second, 0), free, "expired"},
		{"a lease that ran out, with its record", lock(1, time.Second, 0), holdfast.LockInfo{}, "expired"},
		{"a lease that ran out, and the next holder", lock(1, time.Second, 1), held(2, 0), "expired held waiting"},
		{"one of two leases that ran out", two, held(1, 0), "expired"},
		{"a release before the end", lock(1, time.Second+1, 0), free, "released"},
		{"the end of a minimum time", kept, free, "released"},
		{"an eviction with a next holder", held(1, 1), evicted, "evicted held waiting"},
		{"an eviction just before the end", lock(1, time.Second, 0), evicted, "evicted held"},
		{"an old eviction", evicted, evicted, ""},
		{"an eviction from before the watch", holdfast.LockInfo{}, evicted, "held"},
	} {
		var got []string
		states := func(info holdfast.LockInfo, at time.Time) map[watched]seen {
			if info.Name == "" {
				return nil
			}
			return map[watched]seen{{name: "x"}: {info, at}}
		}
		for _, e := range changes(states(c.before, at), states(c.after, at.Add(time.Second)), at.Add(time.Second)) {
			got = append(got, e.Event)
			assert.True(t, e.Name == "x" && strings.Contains(fmt.Sprint(e), "x"), "%s: %+v", c.what, e)
		}
		assert.Equal(t, strings.Join(got, " "), c.want, "%s: %q", c.what, got)
	}
}

// While the server was away, leases may have ended. They are judged by the time since they were read.
func TestWatchKeepsWhatItDidNotRead(t *testing.T) {
	at := time.Unix(1000, 0)
	known := func() map[watched]seen {
		list := map[watched]seen{}
		for _, name := range []string{"read", "bad", "unseen"} {
			info := holdfast.LockInfo{Name: name, Holders: []holdfast.Holder{{Token: 1, Remaining: 20 * time.Second}}}
			list[watched{name: name}] = seen{info, at}
		}
		return list
	}
	for failed, want := range map[bool]string{false: "read unseen", true: "read"} {
		now := map[watched]seen{{name: "read"}: {holdfast.LockInfo{Name: "read"}, at.Add(time.Second)}}
		keepUnread(known(), now, map[watched]string{{name: "bad"}: "why"}, failed)
		var released []string
		for _, e := range changes(known(), now, at.Add(time.Second)) {
			assert.Equal(t, e.Event, "released", "event of %s", e.Name)
			released = append(released, e.Name)
		}
		assert.Equal(t, strings.Join(released, " "), want, "released, failed: %v", failed)
		for _, e := range changes(now, nil, at.Add(time.Minute)) {
			assert.Equal(t, e.Event, "expired", "event of %s a minute later", e.Name)
		}
	}
}

func TestRowsAreSorted(t *testing.T) {
	at := func(name string, age, left int64, waiting int) row {
		holders := []lockjson.Holder{{AgeMS: age, RemainingMS: left}}
		return newRow(lockjson.State{Name: name, Waiting: waiting, Holders: holders}, false)
	}
	rows := []row{at("a", 5, 9, 0), at("b", 7, 3, 2), at("c", 6, 4, 1)}
	for field, want := range map[string]string{"name": "abc", "age": "bca", "lease": "bca", "waiting": "bca"} {
		got := ""
		slices.SortStableFunc(rows, sorts[field])
		for _, r := range rows {
			got += r.state.Name
		}
		assert.Equal(t, got, want, "by %s", field)
	}
}

// The record of a free lock keeps waiters that are gone until somebody asks for the lock. They are
// not what list, top and watch are asked for.
func TestAFreeLockWithWaitersThatAreGoneIsNotListed(t *testing.T) {
	gone := holdfast.LockInfo{Name: "a", Fence: 1, Waiters: []holdfast.Waiter{{Position: 1, Silent: true}}}
	waits := holdfast.LockInfo{Name: "a", Fence: 1, Waiters: append(gone.Waiters, holdfast.Waiter{Position: 2})}
	l := &lister{listOptions: &listOptions{}}
	list := func(s holdfast.LockInfo) bool { return l.wants(newRow(lockjson.Of(s, "k"), false)) }
	assert.False(t, list(gone), "a lock whose waiters are gone is listed")
	assert.True(t, list(waits), "a lock with a live waiter is not listed")
	l.all = true
	assert.True(t, list(gone), "--all leaves a record out")
	known := map[watched]seen{{name: "a"}: {LockInfo: waits}}
	events := changes(known, map[watched]seen{{name: "a"}: {LockInfo: gone}}, time.Now())
	assert.MustTrue(t, len(events) == 1 && events[0].Waiting != nil, "%v", events)
	assert.Equal(t, *events[0].Waiting, 0, "waiting")
}

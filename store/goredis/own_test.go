package goredis

import (
	"context"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/mark"
	"github.com/holdfast-go/holdfast/script"
)

// A renewal for which a caller waits has the places of renewals, and its answer is read at once.
func TestOnlyARenewalForWhichNobodyWaitsIsLookedFor(t *testing.T) {
	rdb := redis.NewClient(&redis.Options{})
	o := newOwn(rdb)
	for _, test := range []struct {
		ctx    context.Context
		action *script.Script
		want   urgency
	}{
		{t.Context(), script.Acquire, ordinary},
		{mark.Awaited(t.Context()), script.Renew, extending},
		{t.Context(), script.Renew, renewing},
	} {
		how := urgencyOf(test.ctx, test.action)
		assert.Equal(t, how, test.want, "the urgency of %s", test.action.Name)
		r, err := o.begin(t.Context(), nil, how, false)
		assert.Must(t, err)
		assert.Equal(t, r.place == o.spare, how != ordinary, "%s has a place for renewals", test.action.Name)
		assert.Equal(t, r.lane.renewing, how == renewing, "the answer to %s is looked for", test.action.Name)
		o.end(r)
	}
	o.close()
	assert.NoError(t, rdb.Close())
}

// Other requests take as many places as the client's pool has connections. Some more are for renewals only,
// however many other requests are under way.
func TestPlacesThatOnlyRenewalsTake(t *testing.T) {
	const pool = 2
	ended, end := context.WithCancel(t.Context()) // a request that finds no place does not wait
	end()
	for _, test := range []struct {
		others   bool // come first
		renewals int  // get a place
	}{{true, spareForRenewals}, {false, pool + spareForRenewals}} {
		rdb := redis.NewClient(&redis.Options{PoolSize: pool})
		o := newOwn(rdb)
		var places []request
		take := func(how urgency) (n int) {
			for {
				r, err := o.begin(ended, nil, how, false)
				if err != nil {
					return n
				}
				places = append(places, r)
				n++
			}
		}
		if test.others {
			assert.Equal(t, take(ordinary), pool, "other requests under way")
		}
		assert.Equal(t, take(renewing), test.renewals, "renewals under way, others came first: %v", test.others)
		for _, r := range places {
			o.end(r)
		}
		o.close()
		assert.NoError(t, rdb.Close())
	}
}

package goredis

import (
	"context"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/assert"
)

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

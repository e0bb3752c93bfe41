package quorum_test

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/memstore"
	"github.com/holdfast-go/holdfast/quorum"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/storetest"
)

func TestConformance(t *testing.T) {
	storetest.Run(t, func(t *testing.T) storetest.Env {
		nodes := make([]*memstore.Store, 5)
		stores := make([]store.Store, 5)
		for i := range nodes {
			nodes[i] = memstore.New()
			nodes[i].Advance(time.Duration(i) * 7 * time.Millisecond)
			stores[i] = nodes[i]
		}
		s, err := quorum.New(stores, quorum.Config{MaxTTL: 10 * time.Minute, Timeout: time.Minute})
		assert.Must(t, err)
		t.Cleanup(s.Close)
		return storetest.Env{
			Store:     s,
			NoPermits: true, NoConversions: true, NoOwners: true,
			Publish: func(channel, payload string) { nodes[0].Publish(channel, payload) },
			Plant: func(key string) {
				for _, n := range nodes {
					n.PlantForeign(key)
				}
			},
			KillSubscribers: func() {
				for _, n := range nodes {
					n.BreakSubscriptions()()
				}
			},
			Silence: func() (resume func()) {
				var resumes []func()
				for _, n := range nodes {
					resumes = append(resumes, n.Stall())
				}
				return func() {
					for _, resume := range resumes {
						resume()
					}
				}
			},
		}
	})
}

package memstore_test

import (
	"testing"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/memstore"
	"github.com/holdfast-go/holdfast/store/storetest"
)

func TestConformance(t *testing.T) {
	storetest.Run(t, func(t *testing.T) storetest.Env {
		store := memstore.New()
		store.Acknowledge(holdfast.Acknowledged{Replicas: 2})
		return storetest.Env{
			Store:           store,
			Replicas:        2,
			Publish:         func(channel, payload string) { store.Publish(channel, payload) },
			Plant:           store.Plant,
			KillSubscribers: func() { store.Cut()() },
			Silence:         store.Stall,
		}
	})
}

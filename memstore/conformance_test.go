package memstore_test

import (
	"testing"

	"github.com/holdfast-go/holdfast/memstore"
	"github.com/holdfast-go/holdfast/store/storetest"
)

func TestConformance(t *testing.T) {
	storetest.Run(t, func(t *testing.T) storetest.Env {
		store := memstore.New()
		return storetest.Env{
			Store:           store,
			Publish:         func(channel, payload string) { store.Publish(channel, payload) },
			Plant:           store.Plant,
			KillSubscribers: func() { store.Cut()() },
			Silence:         store.Stall,
		}
	})
}

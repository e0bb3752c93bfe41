package memstore_test

import (
	"testing"

	"github.com/holdfast-go/holdfast/memstore"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/storetest"
)

func TestConformance(t *testing.T) {
	storetest.Run(t, func(t *testing.T) storetest.Env {
		st := memstore.New()
		st.SetAcks(store.Acks{Replicas: 2})
		return storetest.Env{
			Store:           st,
			Replicas:        2,
			Publish:         func(channel, payload string) { st.Publish(channel, payload) },
			Plant:           st.PlantForeign,
			KillSubscribers: func() { st.BreakSubscriptions()() },
			Silence:         st.Stall,
		}
	})
}

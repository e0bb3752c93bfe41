package goredis_test

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/store/storetest"
)

func TestConformance(t *testing.T) {
	server := redistest.Start(t)
	storetest.Run(t, func(t *testing.T) storetest.Env {
		store, _ := open(t, server.Addr(), nil)
		return storetest.Env{
			Store:           store,
			Publish:         func(channel, payload string) { server.Do(t, "PUBLISH", channel, payload) },
			Plant:           func(key string) { server.Do(t, "SET", key, "foreign") },
			FlushScripts:    func() { server.Do(t, "SCRIPT", "FLUSH") },
			KillSubscribers: func() { server.Do(t, "CLIENT", "KILL", "TYPE", "pubsub") },
			Silence: func() (resume func()) {
				server.Pause()
				return server.Continue
			},
		}
	})
}

// Package conform gives storetest a hand on real servers, of whatever
// topology and behind whatever client library.
package storetestenv

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/storetest"
)

// Sentinel is the environment of a store on a primary with two replicas.
func Sentinel(t *testing.T, s store.Store, group *redistest.Sentinel) storetest.Env {
	env := Server(t, s, group.Servers[0])
	env.Replicas = 2
	return env
}

// Server is the environment of a store on one server.
func Server(t *testing.T, s store.Store, server *redistest.Server) storetest.Env {
	return storetest.Env{
		Store:           s,
		Publish:         func(channel, payload string) { server.Do(t, "PUBLISH", channel, payload) },
		Plant:           func(key string) { server.Do(t, "SET", key, "foreign") },
		FlushScripts:    func() { server.Do(t, "SCRIPT", "FLUSH") },
		KillSubscribers: func() { server.Do(t, "CLIENT", "KILL", "TYPE", "pubsub") },
		Silence: func() (resume func()) {
			server.Pause()
			return server.Continue
		},
	}
}

// Cluster is the environment of a store on a Cluster.
func Cluster(t *testing.T, st store.Store, cluster *redistest.Cluster) storetest.Env {
	return storetest.Env{
		Store:           st,
		Replicas:        1,
		Publish:         func(channel, payload string) { cluster.Do(t, channel, "SPUBLISH", channel, payload) },
		Plant:           func(key string) { cluster.Do(t, key, "SET", key, "foreign") },
		FlushScripts:    func() { cluster.Each(t, "SCRIPT", "FLUSH") },
		KillSubscribers: func() { cluster.Each(t, "CLIENT", "KILL", "TYPE", "pubsub") },
		Silence: func() (resume func()) {
			for _, s := range cluster.Nodes {
				s.Pause()
			}
			return func() {
				for _, s := range cluster.Nodes {
					s.Continue()
				}
			}
		},
	}
}

package adaptertest

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/storetest"
)

// tenant returns the options of servers for storetest's keys.
func (l Library) tenant() []redistest.Option {
	return append([]redistest.Option{
		redistest.Tenant("storetest"), redistest.Needs("for `WaitReplicas`"),
		redistest.Needs("if a program closes clients"), redistest.Needs("for `Client.List`"),
	}, l.Needs...)
}

// Conformance runs storetest on one server.
func (l Library) Conformance(t *testing.T) {
	server := redistest.Start(t, l.tenant()...)
	storetest.Run(t, func(t *testing.T) storetest.Env {
		return serverEnv(t, l.store(t, server.Addr(), Client{}), server)
	})
}

// ConformanceBehindSentinel runs storetest on a primary with two replicas.
func (l Library) ConformanceBehindSentinel(t *testing.T) {
	group := redistest.StartSentinel(t, l.tenant()...)
	group.Forbear(t)
	storetest.Run(t, func(t *testing.T) storetest.Env {
		return sentinelEnv(t, l.OpenSentinel(t, group), group)
	})
}

// ConformanceInACluster runs storetest on a Cluster.
func (l Library) ConformanceInACluster(t *testing.T) {
	cluster := redistest.StartCluster(t, l.tenant()...)
	cluster.Forbear(t)
	storetest.Run(t, func(t *testing.T) storetest.Env {
		return clusterEnv(t, l.OpenCluster(t, cluster), cluster)
	})
}

// sentinelEnv is the environment of a store on a primary with two replicas.
func sentinelEnv(t *testing.T, s store.Store, group *redistest.Sentinel) storetest.Env {
	env := serverEnv(t, s, group.Servers[0])
	env.Replicas = 2
	return env
}

// serverEnv is the environment of a store on one server.
func serverEnv(t *testing.T, s store.Store, server *redistest.Server) storetest.Env {
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

// clusterEnv is the environment of a store on a Cluster.
func clusterEnv(t *testing.T, st store.Store, cluster *redistest.Cluster) storetest.Env {
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

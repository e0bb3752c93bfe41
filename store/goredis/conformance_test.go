package goredis_test

import (
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/internal/storetestenv"
	"github.com/holdfast-go/holdfast/store/goredis"
	"github.com/holdfast-go/holdfast/store/storetest"
)

// tenant is whom the servers are for: the keys are those of storetest.
func tenant() []redistest.Option {
	return []redistest.Option{
		redistest.Tenant("storetest"), redistest.Needs("for `WaitReplicas`"),
		redistest.Needs("where clients are closed"),
	}
}

func TestConformance(t *testing.T) {
	server := redistest.Start(t, tenant()...)
	storetest.Run(t, func(t *testing.T) storetest.Env {
		store, _ := open(t, server.Addr(), nil)
		return storetestenv.Server(t, store, server)
	})
}

func TestConformanceBehindSentinel(t *testing.T) {
	group := redistest.StartSentinel(t, tenant()...)
	group.Forbear(t)
	storetest.Run(t, func(t *testing.T) storetest.Env {
		rdb := redis.NewFailoverClient(&redis.FailoverOptions{
			MasterName: redistest.SentinelName, SentinelAddrs: group.Addrs(), TLSConfig: redistest.TLS(),
		})
		t.Cleanup(func() { rdb.Close() })
		return storetestenv.Sentinel(t, goredis.New(rdb), group)
	})
}

func TestConformanceInACluster(t *testing.T) {
	cluster := redistest.StartCluster(t, tenant()...)
	cluster.Forbear(t)
	storetest.Run(t, func(t *testing.T) storetest.Env {
		rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: cluster.Addrs(), TLSConfig: redistest.TLS()})
		t.Cleanup(func() { rdb.Close() })
		return storetestenv.Cluster(t, goredis.New(rdb), cluster)
	})
}

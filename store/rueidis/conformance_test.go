package rueidis_test

import (
	"testing"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/internal/storetestenv"
	rueidisstore "github.com/holdfast-go/holdfast/store/rueidis"
	"github.com/holdfast-go/holdfast/store/storetest"
)

// tenant is whom the servers are for: the keys are those of storetest.
func tenant() []redistest.Option {
	return []redistest.Option{
		redistest.Tenant("storetest"), redistest.Needs("for `WaitReplicas`"),
		redistest.Needs("where clients are closed"),
		caching,
	}
}

func TestConformance(t *testing.T) {
	server := redistest.Start(t, tenant()...)
	storetest.Run(t, func(t *testing.T) storetest.Env {
		s, _ := open(t, server.Addr(), nil)
		return storetestenv.Server(t, s, server)
	})
}

func TestConformanceBehindSentinel(t *testing.T) {
	group := redistest.StartSentinel(t, tenant()...)
	group.Forbear(t)
	storetest.Run(t, func(t *testing.T) storetest.Env {
		return storetestenv.Sentinel(t, rueidisstore.New(connect(t, rueidis.ClientOption{
			DisableCache: redistest.Secured(), // it would want more of the Sentinels
			InitAddress:  group.Addrs(), Sentinel: rueidis.SentinelOption{MasterSet: redistest.SentinelName},
		})), group)
	})
}

func TestConformanceInACluster(t *testing.T) {
	cluster := redistest.StartCluster(t, tenant()...)
	cluster.Forbear(t)
	storetest.Run(t, func(t *testing.T) storetest.Env {
		rdb := connect(t, rueidis.ClientOption{InitAddress: cluster.Addrs()})
		return storetestenv.Cluster(t, rueidisstore.New(rdb), cluster)
	})
}

package rueidis_test

import (
	"testing"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/internal/conform"
	"github.com/holdfast-go/holdfast/internal/redistest"
	store "github.com/holdfast-go/holdfast/store/rueidis"
	"github.com/holdfast-go/holdfast/store/storetest"
)

func TestConformance(t *testing.T) {
	server := redistest.Start(t)
	storetest.Run(t, func(t *testing.T) storetest.Env {
		s, _ := open(t, server.Addr(), nil)
		return conform.Server(t, s, server)
	})
}

func TestConformanceBehindSentinel(t *testing.T) {
	group := redistest.StartSentinel(t)
	group.Forbear(t)
	storetest.Run(t, func(t *testing.T) storetest.Env {
		return conform.Sentinel(t, store.New(connect(t, rueidis.ClientOption{
			InitAddress: group.Addrs(), Sentinel: rueidis.SentinelOption{MasterSet: redistest.SentinelName},
		})), group)
	})
}

func TestConformanceInACluster(t *testing.T) {
	cluster := redistest.StartCluster(t)
	cluster.Forbear(t)
	storetest.Run(t, func(t *testing.T) storetest.Env {
		return conform.Cluster(t, store.New(connect(t, rueidis.ClientOption{InitAddress: cluster.Addrs()})), cluster)
	})
}

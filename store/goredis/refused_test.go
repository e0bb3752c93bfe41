package goredis_test

import (
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/internal/storetestenv"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/goredis"
)

func TestWhoStopsListeningToAServerThatRefusesLives(t *testing.T) {
	server := redistest.Start(t, storetestenv.Free, redistest.Args("--enable-debug-command", "yes"))
	storetestenv.Refused{
		Server: server, Publish: "PUBLISH", Codes: []string{"MASTERDOWN", "BUSY", "LOADING"},
		Open: func(t *testing.T) store.Store {
			s, _ := open(t, server.Addr(), nil)
			return s
		},
	}.Stops(t)
}

func TestWhoStopsListeningToANodeThatRefusesLives(t *testing.T) {
	cluster := redistest.StartCluster(t, storetestenv.Free, redistest.Needs("in a Cluster"))
	cluster.Forbear(t)
	storetestenv.Refused{
		Server: cluster.Home("{a}"), Publish: "SPUBLISH", Tag: "{a}", Codes: []string{"BUSY"},
		Open: func(t *testing.T) store.Store {
			rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: cluster.Addrs(), TLSConfig: redistest.TLS()})
			t.Cleanup(func() { rdb.Close() })
			return goredis.New(rdb)
		},
	}.Stops(t)
}

package rueidis_test

import (
	"testing"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/internal/storetestenv"
	"github.com/holdfast-go/holdfast/store"
	rueidisstore "github.com/holdfast-go/holdfast/store/rueidis"
)

// rueidis reads some refusals as answers to something else when it unsubscribes, and
// ends the process by a panic.
func TestWhoStopsListeningToAServerThatRefusesLives(t *testing.T) {
	for _, name := range []string{"RESP3", "RESP2"} {
		change := protocols[name]
		t.Run(name, func(t *testing.T) {
			server := redistest.Start(t, storetestenv.Free, caching, debug)
			storetestenv.Refused{
				Server: server, Publish: "PUBLISH", Codes: []string{"MASTERDOWN", "BUSY", "LOADING"},
				Open: func(t *testing.T) store.Store {
					s, _ := open(t, server.Addr(), change)
					return s
				},
			}.Stops(t)
		})
	}
}

func TestWhoStopsListeningToANodeThatRefusesLives(t *testing.T) {
	cluster := redistest.StartCluster(t, storetestenv.Free, caching, redistest.Needs("in a Cluster"))
	cluster.Forbear(t)
	storetestenv.Refused{
		Server: cluster.Home("{a}"), Publish: "SPUBLISH", Tag: "{a}", Codes: []string{"BUSY"},
		Open: func(t *testing.T) store.Store {
			return rueidisstore.New(connect(t, rueidis.ClientOption{InitAddress: cluster.Addrs()}))
		},
	}.Stops(t)
}

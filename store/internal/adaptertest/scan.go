package adaptertest

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/store"
)

// ScansWithoutANode tests that a node of a Cluster that is down hides only its own keys, and that the
// error names it.
func (l Library) ScansWithoutANode(t *testing.T) {
	options := append([]redistest.Option{
		Free, redistest.Needs("in a Cluster"), redistest.Needs("for `Client.List`"),
	}, l.Needs...)
	cluster := redistest.StartCluster(t, options...)
	s := l.OpenCluster(t, cluster)
	scan := func() (found []string, err error) {
		ended := make(chan error, 1)
		go func() { // without a deadline
			ended <- s.(store.Scanner).Scan(t.Context(), "listed:", func(keys []string) error {
				found = append(found, keys...)
				return nil
			})
		}()
		err = redistest.Next(t, "the end", ended)
		slices.Sort(found)
		return slices.Compact(found), err
	}
	dead := cluster.Owner(0)
	var all, alive []string
	for i := range 30 {
		key := fmt.Sprintf("listed:%02d", i)
		cluster.Do(t, key, "SET", key, "x")
		if all = append(all, key); cluster.Home(key) != dead {
			alive = append(alive, key)
		}
	}
	found, err := scan()
	assert.Must(t, err)
	assert.EqualSlices(t, found, all, "the keys of all nodes")

	for _, replica := range cluster.ReplicasOf(dead) {
		replica.Kill() // nothing replaces the node
	}
	dead.Kill()
	found, err = scan()
	assert.EqualSlices(t, found, alive, "the keys of the others")
	assert.True(t, err != nil && strings.Contains(err.Error(), "node "+dead.Addr()+": "), "the error: %v", err)
	assert.Must(t, assert.Err(s.Server(t.Context()))) // another primary answers
}

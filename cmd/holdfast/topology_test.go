//go:build unix

package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

// topologies are the ways to run servers: the conditions of the scripts.
var topologies = []string{"single", "sentinel", "cluster", "quorum"}

// The scripts in testdata/topology run once on each topology, all of them on the same
// servers. Each has a prefix of its own. What a topology cannot do begins with [quorum].
func TestTopologies(t *testing.T) {
	for _, name := range topologies {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			shared := &world{t: t}
			url := shared.start(t, name)
			testscript.Run(t, testscript.Params{
				Dir: "testdata/topology",
				Setup: func(env *testscript.Env) error {
					if err := setup(env); err != nil {
						return err
					}
					own := *shared
					own.t = env.Values[worldKey{}].(*world).t
					env.Values[worldKey{}] = &own
					// The name of a script is that of its directory, after script-.
					script := strings.TrimPrefix(filepath.Base(env.WorkDir), "script-")
					own.prefix = script
					env.Vars = append(env.Vars, "HOLDFAST_PREFIX="+script, "HOLDFAST_REDIS="+url,
						"SSL_CERT_FILE="+shared.server.CAFile())
					return nil
				},
				Condition: func(word string) (bool, error) {
					if slices.Contains(topologies, word) {
						return word == name, nil
					}
					return condition(word)
				},
				Cmds: commands,
			})
		})
	}
}

// start starts the servers of a topology, and returns the URL that a user would write.
func (w *world) start(t *testing.T, topology string) (url string) {
	options := []redistest.Option{redistest.Tenant(""), redistest.Needs("in a database"), listing}
	bare := strings.TrimSuffix(scheme(), "://")
	switch topology {
	case "single":
		w.server = redistest.Start(t, options...)
		url = scheme() + w.server.Addr()
	case "sentinel":
		s := redistest.StartSentinel(t, options...)
		w.server = s.Primary()
		url = bare + "+sentinel://" + strings.Join(s.Addrs(), ",") + "/" + redistest.SentinelName
	case "cluster":
		c := redistest.StartCluster(t, options...)
		w.server = c.Nodes[0]
		w.nodes = c.Nodes[:3]
		url = scheme() + c.Nodes[4].Addr() // a replica is a seed, too
	case "quorum":
		w.nodes = redistest.Primaries(t, 5, options...)
		w.server = w.nodes[0]
		var urls []string
		for _, s := range w.nodes {
			urls = append(urls, scheme()+s.Addr())
		}
		url = strings.Join(urls, " ")
	default:
		panic(fmt.Sprintf("no topology %q", topology))
	}
	w.direct = url
	return url
}

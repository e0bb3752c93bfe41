package adaptertest

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/script"
	"github.com/holdfast-go/holdfast/store"
)

// StopsAtAServerThatRefuses tests that subscriptions, and requests that wait for replicas,
// end while the server refuses. That harms neither the process nor the other subscriptions.
// A client library that takes an answer for that to another request panics, and ends the
// test with the process.
func (l Library) StopsAtAServerThatRefuses(t *testing.T) {
	for _, protocol := range l.Refused {
		t.Run(protocol, func(t *testing.T) {
			server := l.start(t, redistest.Args("--enable-debug-command", "yes"))
			refusing{
				server: server, publish: "PUBLISH", codes: []string{"MASTERDOWN", "BUSY", "LOADING"},
				open: func(t *testing.T) store.Store { return l.store(t, server.Addr(), Client{Protocol: protocol}) },
			}.stops(t)
		})
	}
}

// StopsAtANodeThatRefuses tests the same on a node of a Cluster.
func (l Library) StopsAtANodeThatRefuses(t *testing.T) {
	options := append([]redistest.Option{Free, redistest.Needs("in a Cluster")}, l.Needs...)
	cluster := redistest.StartCluster(t, options...)
	cluster.Forbear(t)
	refusing{
		server: cluster.Home("{a}"), publish: "SPUBLISH", tag: "{a}", codes: []string{"BUSY"},
		open: func(t *testing.T) store.Store { return l.OpenCluster(t, cluster) },
	}.stops(t)
}

// refusing is a server that refuses for a while, and stores on it.
type refusing struct {
	server  *redistest.Server
	open    func(t *testing.T) store.Store
	publish string   // the command
	tag     string   // the beginning of names that belong to server
	codes   []string // how it refuses: of MASTERDOWN, BUSY and LOADING
}

func (r refusing) stops(t *testing.T) {
	for _, code := range r.codes {
		for name, others := range map[string]bool{"TheLast": false, "OneOfTwo": true} {
			t.Run(code+"/"+name, func(t *testing.T) { r.stop(t, code, others) })
		}
	}
}

func (r refusing) stop(t *testing.T, code string, others bool) {
	s := r.open(t)
	otherHeard := func() bool { return true }
	if others {
		otherHeard = r.heardOn(t, s, "other")
	}
	stop, err := s.Listen(t.Context(), r.tag+"gone", store.Listener{})
	assert.Must(t, err)
	leave := startRefusing[code](t, r.server)
	watch := r.server.Dial(t)
	refuses := func() bool {
		said, refused := watch.Do(t, "PING").(redistest.Error)
		return refused && strings.HasPrefix(string(said), code)
	}
	redistest.Await(t, "the server refuses with "+code, refuses)
	stop()
	if acker, ok := s.(store.Acker); ok {
		// If the context can end and has no deadline, a library may answer in the background.
		ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
		need := store.Acks{Replicas: 1}
		_, _, err := acker.RunAcked(ctx, script.Inspect, []string{r.tag + "lock"}, nil, need, time.Second)
		cancel()
		assert.True(t, err != nil, "the request was not refused")
	}
	assert.True(t, refuses(), "the server refused for too short a time")
	leave()
	redistest.Await(t, "the server answers", func() bool { return watch.Do(t, "PING") == "PONG" })
	// Each confirmation is an answer for which a library may have no request left.
	again := r.heardOn(t, s, "gone")
	redistest.Await(t, "it is heard again", again)
	redistest.Await(t, "the other is heard", otherHeard)
}

// heardOn listens. It returns a function that publishes and reports whether that was heard.
func (r refusing) heardOn(t *testing.T, s store.Store, name string) func() bool {
	heard := make(chan struct{}, 1)
	stop, err := s.Listen(t.Context(), r.tag+name, store.Listener{Message: func(string) {
		select {
		case heard <- struct{}{}:
		default:
		}
	}})
	assert.Must(t, err)
	t.Cleanup(stop)
	return func() bool {
		r.server.Do(t, r.publish, r.tag+name, "hello")
		select {
		case <-heard:
			return true
		default:
			return false
		}
	}
}

// startRefusing makes a server refuse until leave is called.
var startRefusing = map[string]func(t *testing.T, s *redistest.Server) (leave func()){
	"MASTERDOWN": func(t *testing.T, s *redistest.Server) func() {
		admin := s.Dial(t)
		admin.Do(t, "CONFIG", "SET", "replica-serve-stale-data", "no")
		admin.Do(t, "REPLICAOF", "127.0.0.1", "1") // no server is there
		return func() { admin.Do(t, "REPLICAOF", "NO", "ONE") }
	},
	"BUSY": func(t *testing.T, s *redistest.Server) func() {
		admin, spins := s.Dial(t), s.Dial(t)
		admin.Do(t, "CONFIG", "SET", "busy-reply-threshold", 10)
		spins.Send(t, "EVAL", "while true do end", 0)
		return func() {
			admin.Do(t, "SCRIPT", "KILL")
			spins.Receive(t)
		}
	},
	"LOADING": func(t *testing.T, s *redistest.Server) func() {
		admin, loads := s.Dial(t), s.Dial(t)
		// The server serves other clients after every so many bytes: here after each key,
		// which takes 50 ms.
		admin.Do(t, "CONFIG", "SET", "rdbcompression", "no", "key-load-delay", 50_000,
			"loading-process-events-interval-bytes", 1024)
		admin.Do(t, "EVAL", "for i = 1, 1000 do redis.call('SET', ARGV[1] .. i, string.rep('x', 1500)) end", 0, "many")
		loads.Send(t, "DEBUG", "RELOAD")
		return func() {
			admin.Do(t, "CONFIG", "SET", "key-load-delay", 0)
			loads.Receive(t)
			admin.Do(t, "FLUSHALL")
		}
	},
}

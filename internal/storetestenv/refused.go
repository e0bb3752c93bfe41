package storetestenv

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/script"
	"github.com/holdfast-go/holdfast/store"
)

// Refused is a server that refuses for a while, and a store on it.
type Refused struct {
	Server  *redistest.Server
	Open    func(t *testing.T) store.Store
	Publish string   // the command
	Tag     string   // what names that live on Server begin with
	Codes   []string // how it refuses: of MASTERDOWN, BUSY and LOADING
}

// Stops tests that subscriptions, and requests that wait for replicas, end while the
// server refuses. Neither the process nor what goes on listening is hurt by that.
// A client library that reads an answer as that to another request panics: then the test
// is over with the process.
func (r Refused) Stops(t *testing.T) {
	for _, code := range r.Codes {
		for name, others := range map[string]bool{"TheLast": false, "OneOfTwo": true} {
			t.Run(code+"/"+name, func(t *testing.T) { r.stop(t, code, others) })
		}
	}
}

func (r Refused) stop(t *testing.T, code string, others bool) {
	s := r.Open(t)
	stays := func() bool { return true }
	if others {
		stays = r.hears(t, s, "stays")
	}
	stop, err := s.Listen(t.Context(), r.Tag+"gone", store.Listener{})
	if err != nil {
		t.Fatal(err)
	}
	leave := refusals[code](t, r.Server)
	watch := r.Server.Dial(t)
	refuses := func() bool {
		said, refused := watch.Do(t, "PING").(redistest.Error)
		return refused && strings.HasPrefix(string(said), code)
	}
	redistest.Await(t, "the server refuses with "+code, refuses)
	stop()
	if acker, ok := s.(store.Acker); ok {
		// With a context that can end, and has no deadline, a library may answer in the background.
		ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
		need := store.Acks{Replicas: 1}
		_, _, err := acker.RunAcked(ctx, script.Inspect, []string{r.Tag + "lock"}, nil, need, time.Second)
		cancel()
		if err == nil {
			t.Error("the request was not refused")
		}
	}
	if !refuses() {
		t.Error("the server refused for too short a time")
	}
	leave()
	redistest.Await(t, "the server answers", func() bool { return watch.Do(t, "PING") == "PONG" })
	// Each is an answer, for which a library may have no request any more.
	again := r.hears(t, s, "gone")
	redistest.Await(t, "it is heard again", again)
	redistest.Await(t, "the other is heard", stays)
}

// hears listens, and returns a function that publishes and reports whether it was heard.
func (r Refused) hears(t *testing.T, s store.Store, name string) func() bool {
	heard := make(chan struct{}, 1)
	stop, err := s.Listen(t.Context(), r.Tag+name, store.Listener{Message: func(string) {
		select {
		case heard <- struct{}{}:
		default:
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	return func() bool {
		r.Server.Do(t, r.Publish, r.Tag+name, "hello")
		select {
		case <-heard:
			return true
		default:
			return false
		}
	}
}

// refusals have a server refuse until leave is called.
var refusals = map[string]func(t *testing.T, s *redistest.Server) (leave func()){
	"MASTERDOWN": func(t *testing.T, s *redistest.Server) func() {
		admin := s.Dial(t)
		admin.Do(t, "CONFIG", "SET", "replica-serve-stale-data", "no")
		admin.Do(t, "REPLICAOF", "127.0.0.1", "1") // where nobody is
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
		// It hears others after each so many bytes: here after each key, which takes 50 ms.
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

package fault

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/internal/slot"
	"github.com/holdfast-go/holdfast/verify/history"
)

// unclustered are the topologies in which a server takes REPLICAOF.
var unclustered = []string{Standalone, Durable, EverySec, Sentinel, Quorum}

// refusingFaults are the states in which a server runs and refuses requests; of a quorum
// one or two servers. Each names the word of the refusal, and the fault checks that the
// server says it.
var refusingFaults = refusing([]Fault{
	{Name: "read-only", About: "the server becomes a replica without a primary, and refuses writes (REPLICAOF)",
		Refuses: "READONLY", Topologies: unclustered, takes: []string{roles}},
	{Name: "master-down", About: "the server becomes a replica without a primary, and refuses stale reads",
		Refuses: "MASTERDOWN", Topologies: unclustered, takes: []string{roles}},
	{Name: "no-replicas", About: "the server lacks replicas, and refuses writes (min-replicas-to-write)",
		Refuses: "NOREPLICAS"},
	{Name: "save-failed", About: "the server cannot save, and refuses writes (stop-writes-on-bgsave-error)",
		Refuses: "MISCONF", takes: []string{saving}},
	{Name: "memory", About: "the server has no memory left", Refuses: "OOM", takes: []string{serverMemory}},
	{Name: "loading", About: "the server loads its saved data", Refuses: "LOADING", Late: true,
		takes: []string{standing, saving}},
	{Name: "busy", About: "a script runs until it is killed", Refuses: "BUSY", Late: true,
		takes: []string{standing}},
	{Name: "cluster-down", About: "no server serves one of the slots", Refuses: "CLUSTERDOWN",
		Topologies: []string{Cluster}, takes: []string{roles}},
	{Name: "no-auth", About: "clients are cut off, and the server requires a password",
		Refuses: "NOAUTH"},
	{Name: "no-perm", About: "the clients' user may not run one of the commands that the scripts need",
		Refuses: "NOPERM"},
})

// refusing is the faults with what they have in common.
func refusing(faults []Fault) []Fault {
	for i := range faults {
		f := &faults[i]
		f.Side, f.Often = OnServer, true
		f.inject = func(ctx context.Context, w World, rng *rand.Rand, span *history.FaultSpan) error {
			return refusal(ctx, w, rng, span, f.Refuses)
		}
	}
	return faults
}

// order is a command for a server.
type order []any

// refuser makes a server refuse, and ends that.
type refuser struct {
	in, out []order
	enter   func(ctx context.Context) error // after in
	leave   func(ctx context.Context) error // before out
	over    func(ctx context.Context) error // after out: waits until the state is gone
	settle  func()                          // after that
	probe   order                           // what it refuses
	shows   func(said string) bool          // or what the answer to the probe says; nil: the word
}

// refusal makes one server refuse, or one or two of a quorum, all in the same way.
func refusal(ctx context.Context, w World, rng *rand.Rand, span *history.FaultSpan, word string) error {
	d := between(rng, leases(w, 0.2), leases(w, 1.5))
	var all []refuser
	servers := minority(w, rng, span)
	for _, s := range servers {
		all = append(all, refusers[word](w, rng, s, span))
	}
	limited, cancel := begun(ctx, w)
	defer cancel()
	before := refused(limited, w, servers, word)
	heal, cancelHeal := healed(ctx)
	defer cancelHeal()
	var err error
	for i, r := range all {
		err = errors.Join(err, r.start(limited, w, servers[i], word))
	}
	if err == nil {
		if !span.Blind { // the account fell silent before the server was seen to refuse
			span.From = history.Now()
		}
		history.Sleep(ctx, d)
	}
	for i, r := range all {
		err = errors.Join(err, r.end(heal, w, servers[i]))
	}
	if after := refused(heal, w, servers, word); after > before {
		span.Refused = after - before
	}
	span.Text = strings.TrimPrefix(fmt.Sprintf("%s, %d refused on %d", span.Text, span.Refused, len(servers)), ", ")
	return err
}

// start makes the server enter the state, and checks that it has.
func (r refuser) start(ctx context.Context, w World, s *redistest.Server, word string) error {
	for _, o := range r.in {
		if _, err := insist(ctx, w, s, o...); err != nil {
			return err
		}
	}
	if r.enter != nil {
		if err := r.enter(ctx); err != nil {
			return err
		}
	}
	for {
		reply, err := w.Do(ctx, s, r.probe...)
		said := fmt.Sprint(reply)
		if err != nil {
			said = err.Error()
		}
		if r.shows == nil && refuses(said, word) || r.shows != nil && err == nil && r.shows(said) {
			return nil
		}
		if ctx.Err() != nil {
			return fmt.Errorf("%s does not refuse %v with %s: %s", s.Addr(), r.probe, word, said)
		}
		history.Sleep(ctx, 5*time.Millisecond)
	}
}

// refuses reports that a server is in the state: it says the word, or the word of another
// state that it is in, too, and that comes first.
func refuses(said, word string) bool {
	first := []string{"READONLY", "MASTERDOWN", "NOREPLICAS", "MISCONF", "OOM", "LOADING"}
	return strings.Contains(said, word) || word != "BUSY" &&
		slices.ContainsFunc(first, func(other string) bool { return strings.Contains(said, other) })
}

// end makes the server leave the state. A server that was killed meanwhile has left it.
func (r refuser) end(ctx context.Context, w World, s *redistest.Server) (err error) {
	if r.leave != nil {
		err = r.leave(ctx)
	}
	for _, o := range r.out {
		_, e := insist(ctx, w, s, o...)
		err = errors.Join(err, e)
	}
	if r.over != nil {
		err = errors.Join(err, r.over(ctx))
	}
	if r.settle != nil {
		r.settle()
	}
	return err
}

// refused counts what servers have refused with a word.
func refused(ctx context.Context, w World, servers []*redistest.Server, word string) (sum int) {
	for _, s := range servers {
		reply, err := insist(ctx, w, s, "INFO", "errorstats")
		text, _ := reply.(string)
		for line := range strings.Lines(text) {
			name, count, _ := strings.Cut(strings.TrimPrefix(strings.TrimSpace(line), "errorstat_"), ":count=")
			n, e := strconv.Atoi(count)
			// What a script may not run it is refused without the word.
			if err == nil && e == nil && (name == word || word == "NOPERM" && name == "ERR") {
				sum += n
			}
		}
	}
	return sum
}

// write is a command that writes, and changes nothing.
var write = order{"DEL", "holdfast-verify-nothing"}

// refusers make them by the word of the refusal.
var refusers = map[string]func(World, *rand.Rand, *redistest.Server, *history.FaultSpan) refuser{
	"READONLY":    readOnly,
	"MASTERDOWN":  masterDown,
	"NOREPLICAS":  noReplicas,
	"MISCONF":     saveFailed,
	"OOM":         memory,
	"LOADING":     loading,
	"BUSY":        busy,
	"CLUSTERDOWN": clusterDown,
	"NOAUTH":      noAuth,
	"NOPERM":      noPerm,
}

func readOnly(w World, _ *rand.Rand, _ *redistest.Server, _ *history.FaultSpan) refuser {
	r := refuser{
		in: []order{{"REPLICAOF", "127.0.0.1", 1}}, out: []order{{"REPLICAOF", "NO", "ONE"}}, probe: write,
	}
	if g := w.Sentinel(); g != nil {
		r.settle = func() { settled(w, g) }
	}
	return r
}

func masterDown(w World, rng *rand.Rand, s *redistest.Server, span *history.FaultSpan) refuser {
	r := readOnly(w, rng, s, span)
	r.in = append([]order{{"CONFIG", "SET", "replica-serve-stale-data", "no"}}, r.in...)
	r.out = append(r.out, order{"CONFIG", "SET", "replica-serve-stale-data", "yes"})
	r.probe = order{"EXISTS", "holdfast-verify-nothing"}
	return r
}

func noReplicas(w World, _ *rand.Rand, _ *redistest.Server, _ *history.FaultSpan) refuser {
	need := map[string]int{Sentinel: 3, Cluster: 2}[w.Topology()]
	set := func(n int) []order { return []order{{"CONFIG", "SET", "min-replicas-to-write", n}} }
	return refuser{in: set(max(need, 1)), out: set(0), probe: write}
}

func saveFailed(w World, _ *rand.Rand, s *redistest.Server, _ *history.FaultSpan) refuser {
	return refuser{
		in: []order{{"CONFIG", "SET", "save", "3600 100000000"}},
		enter: func(ctx context.Context) error {
			if err := s.SpoilSaves(); err != nil {
				return err
			}
			_, err := insist(ctx, w, s, "BGSAVE")
			return err
		},
		leave: func(context.Context) error { return s.MendSaves() },
		out:   []order{{"BGSAVE", "SCHEDULE"}, {"CONFIG", "SET", "save", ""}},
		// The next fault would load the data of a save that still runs in the background.
		over: func(ctx context.Context) error {
			return persists(ctx, w, s, "rdb_bgsave_in_progress:0", "rdb_last_bgsave_status:ok")
		},
		probe: write,
	}
}

// persists waits until the server reports all of this about its saving.
func persists(ctx context.Context, w World, s *redistest.Server, all ...string) error {
	for {
		reply, err := insist(ctx, w, s, "INFO", "persistence")
		if err != nil {
			return err
		}
		said, _ := reply.(string)
		if !slices.ContainsFunc(all, func(one string) bool { return !strings.Contains(said, one) }) {
			return nil
		}
		if ctx.Err() != nil {
			return fmt.Errorf("%s does not come to %v: %s", s.Addr(), all, said)
		}
		history.Sleep(ctx, 10*time.Millisecond)
	}
}

func memory(World, *rand.Rand, *redistest.Server, *history.FaultSpan) refuser {
	return refuser{
		in: []order{{"CONFIG", "SET", "maxmemory", 1}}, out: []order{{"CONFIG", "SET", "maxmemory", 0}},
		probe: order{"LPUSHX", "holdfast-verify-nothing", 1},
	}
}

// loading makes the server save its data and load them. Meanwhile it answers others only
// between two keys. A save in the background that ends between the two would replace the
// new file by an older one, and writes would be lost.
func loading(w World, rng *rand.Rand, s *redistest.Server, _ *history.FaultSpan) refuser {
	slow := int64(between(rng, leases(w, 0.3), leases(w, 1)) / time.Microsecond)
	var end chan struct{} // closed at the end of the loading, once it has begun
	return refuser{
		enter: func(ctx context.Context) error {
			if err := persists(ctx, w, s, "rdb_bgsave_in_progress:0"); err != nil {
				return err
			}
			reply, err := insist(ctx, w, s, "DBSIZE")
			if err != nil {
				return err
			}
			keys, _ := reply.(int64)
			_, err = insist(ctx, w, s, "CONFIG", "SET", "key-load-delay", slow/max(keys, 1),
				"loading-process-events-interval-bytes", 1024)
			if err == nil {
				end = make(chan struct{})
				go func() {
					defer close(end)
					_, _ = w.Do(context.WithoutCancel(ctx), s, "DEBUG", "RELOAD") // it may have been killed meanwhile
				}()
			}
			return err
		},
		leave: func(ctx context.Context) error {
			_, err := insist(ctx, w, s, "CONFIG", "SET", "key-load-delay", 0)
			if end == nil {
				return err
			}
			select {
			case <-end:
			case <-ctx.Done():
			}
			return err
		},
		probe: order{"INFO", "persistence"},
		shows: func(said string) bool { return strings.Contains(said, "loading:1") },
	}
}

func busy(w World, _ *rand.Rand, s *redistest.Server, _ *history.FaultSpan) refuser {
	var end chan struct{} // of the script, once it has begun
	return refuser{
		in: []order{{"CONFIG", "SET", "busy-reply-threshold", 20}},
		enter: func(ctx context.Context) error {
			end = make(chan struct{})
			go func() {
				defer close(end)
				// It comes to no end by itself: that it is killed is an error.
				_, _ = w.Do(context.WithoutCancel(ctx), s, "EVAL", "while true do end", 0)
			}()
			return nil
		},
		leave: func(ctx context.Context) error {
			var said error // the last that the server itself had to say
			for end != nil {
				// Another fault may have ended the connection, and the script spins on.
				once, cancel := context.WithTimeout(ctx, 2*time.Second)
				_, err := w.Do(once, s, "SCRIPT", "KILL")
				cancel()
				if err != nil && !errors.Is(err, context.DeadlineExceeded) {
					said = err
				}
				over := err != nil && strings.Contains(err.Error(), "NOTBUSY")
				select {
				case <-end:
					if over {
						return nil
					}
				case <-ctx.Done():
					return errors.Join(err, said)
				default:
				}
				history.Sleep(ctx, 10*time.Millisecond)
			}
			return nil
		},
		// A command that writes is refused for other reasons first.
		probe: order{"INFO", "server"},
	}
}

func clusterDown(w World, rng *rand.Rand, s *redistest.Server, span *history.FaultSpan) refuser {
	key := w.Key(rng)
	n := slot.Of(key)
	for w.Cluster().Owner(n) != s {
		key = w.Key(rng)
		n = slot.Of(key)
	}
	span.Text = fmt.Sprintf("slot %d", n)
	return refuser{
		in: []order{{"CLUSTER", "DELSLOTS", n}},
		// By the epoch the others learn that the slot has an owner again. A replica that has
		// not heard of that would take over without the slot, and no node would serve it.
		out:    []order{{"CLUSTER", "ADDSLOTS", n}, {"CLUSTER", "BUMPEPOCH"}},
		settle: func() { w.Cluster().AwaitReady() },
		probe:  order{"EXISTS", key},
	}
}

// noAuth changes the password of the user that the clients log in as.
func noAuth(w World, _ *rand.Rand, s *redistest.Server, _ *history.FaultSpan) refuser {
	return refuser{
		in:    []order{{"ACL", "SETUSER", "default", "resetpass", ">changed"}},
		out:   []order{{"ACL", "SETUSER", "default", "resetpass", "nopass"}},
		probe: order{"ACL", "GETUSER", "default"},
		shows: func(said string) bool { return !strings.Contains(said, "nopass") },
		enter: func(context.Context) error {
			hangUp(w, s)
			return nil
		},
	}
}

// noPerm takes the right to a command from that user. Without the right to publish, the
// server's account is silent as well.
func noPerm(w World, rng *rand.Rand, _ *redistest.Server, span *history.FaultSpan) refuser {
	if span.Text == "" {
		push := "publish"
		if w.Topology() == Cluster {
			push = "spublish"
		}
		commands := []string{"hset", "hdel", "hmget", "pexpire", "evalsha", push}
		span.Text = commands[rng.IntN(len(commands))]
		// The account is empty without the one, and incomplete without the other.
		span.Blind = span.Text == "publish" || span.Text == "hmget"
	}
	command := span.Text
	return refuser{
		in:    []order{{"ACL", "SETUSER", "default", "-" + command}},
		out:   []order{{"ACL", "SETUSER", "default", "+" + command}},
		probe: append(order{"ACL", "DRYRUN", "default"}, example(command)...),
		shows: func(said string) bool { return strings.Contains(said, "no permissions") },
	}
}

// example is a command with as many arguments as it takes.
func example(command string) order {
	args := map[string]int{"hset": 3, "hdel": 2, "hmget": 2, "pexpire": 2, "evalsha": 2, "publish": 2, "spublish": 2}
	return append(order{command}, slices.Repeat(order{"0"}, args[command])...)
}

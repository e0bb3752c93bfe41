//go:build !race

package quorum

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/majority"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/memstore"
	"github.com/holdfast-go/holdfast/script"
	"github.com/holdfast-go/holdfast/store"
)

// The tests of this file say what several servers answer, and look at the one answer made of that.

// saidNode is a server whose answers the test says.
type saidNode struct {
	*memstore.Store
	say func(action string, args []string) (string, error)
}

func (n *saidNode) Run(ctx context.Context, action *script.Script, keys, args []string) (string, error) {
	answer, err := n.say(action.Name, args)
	if answer == asMemory {
		return n.Store.Run(ctx, action, keys, args)
	}
	return answer, err
}

// asMemory lets a server answer as it does otherwise.
const asMemory = "as memory"

// say lets f answer for all servers, in place of each.
func (s *Store) say(f func(i int, action string, args []string) (string, error)) {
	for i, n := range s.nodes {
		n.Store = &saidNode{memstore.New(), func(action string, args []string) (string, error) {
			return f(i, action, args)
		}}
	}
}

// sayEach lets each server give one answer to everything; "!" is an error.
func (s *Store) sayEach(answers ...string) {
	s.say(func(i int, _ string, _ []string) (string, error) {
		if answers[i] == "!" {
			return "", errBroken
		}
		return answers[i], nil
	})
}

// A lock is released if a majority says so, and was not held if a majority can no longer say so.
func TestAReleaseIsWhatAMajoritySays(t *testing.T) {
	for said, want := range map[[3]string]string{
		{"released", "released", "gone"}: "released",
		{"released", "gone", "gone"}:     "gone",
		{"gone", "!", "gone"}:            "gone",
		{"released", "gone", "!"}:        "error",
		{"released", "gone", "held 1"}:   "error",
		{"released", "!", "!"}:           "error",
	} {
		for _, known := range []bool{false, true} {
			inside(t, func(t *testing.T, s *Store, acq *acquisition) {
				s.sayEach(said[:]...)
				if acq.hold(); !known {
					s.forget(acq)
				}
				answer, err := s.release(t.Context(), []string{acq.key}, []string{"c/1", "20", "7000", "push:"})
				assert.True(t, err == nil && answer == want || err != nil && want == "error",
					"%v, known: %v: %q, %v, want %s", said, known, answer, err, want)
				s.say(func(int, string, []string) (string, error) { return "none", nil })
			})
		}
	}
}

// A release of what no majority has granted cancels what the attempt has, on each server. What it releases may be an
// earlier lease: the servers know.
func TestAReleaseOfWhatWasNotWonCancelsIt(t *testing.T) {
	for _, said := range []string{"gone", "released"} {
		inside(t, func(t *testing.T, s *Store, acq *acquisition) {
			var mu sync.Mutex
			cancelled := make([]string, 3)
			s.say(func(i int, action string, args []string) (string, error) {
				mu.Lock()
				defer mu.Unlock()
				if action == "cancel" {
					cancelled[i] = args[0]
					return "released", nil
				}
				return said, nil
			})
			acq.hold()
			acq.phase = collecting
			answer, err := s.release(t.Context(), []string{acq.key}, []string{"c/1", "20", "7000", "push:"})
			assert.True(t, answer == said && err == nil, "%q, %v, want %q", answer, err, said)
			synctest.Wait()
			for i, na := range acq.round.attempts {
				assert.Equal(t, cancelled[i], na.id, "server %d cancels", i)
			}
		})
	}
}

// A kept lock is free when a majority of the servers is.
func TestAKeptLockIsFreeWhenAMajorityIs(t *testing.T) {
	for said, want := range map[[3]string]string{
		{"kept 3000", "kept 5000", "kept 9000"}: "kept 5000",
		{"kept 9000", "kept 3000", "kept 5000"}: "kept 5000",
		{"released", "kept 5000", "released"}:   "released",
		{"gone", "kept 5000", "gone"}:           "gone",
	} {
		inside(t, func(t *testing.T, s *Store, acq *acquisition) {
			acq.hold()
			s.say(func(i int, _ string, _ []string) (string, error) {
				if i == acq.round.coordinator {
					time.Sleep(100 * time.Millisecond) // so that all answers are known
				}
				return said[i], nil
			})
			args := []string{"c/1", "20", "9000", "0", "7000", "push:"}
			answer, err := s.releaseAfter(t.Context(), []string{acq.key}, args)
			assert.True(t, answer == want && err == nil, "%v: %q, %v, want %q", said, answer, err, want)
		})
	}
}

// A cancel tells of a grant if one of the servers had granted.
func TestACancelTellsOfAGrant(t *testing.T) {
	for said, want := range map[[3]string]string{
		{"withdrawn", "released", "none"}: "released",
		{"withdrawn", "none", "none"}:     "withdrawn",
	} {
		inside(t, func(t *testing.T, s *Store, acq *acquisition) {
			s.say(func(i int, _ string, _ []string) (string, error) {
				if said[i] == "released" {
					time.Sleep(second / 10) // each server is waited for
				}
				return said[i], nil
			})
			acq.hold()
			answer, err := s.cancel(t.Context(), []string{acq.key}, []string{"c/1", "7000", "push:"})
			assert.True(t, answer == want && err == nil, "%v: %q, %v, want %q", said, answer, err, want)
			assert.True(t, s.find(acq.key, "c/1") == nil, "it is still known")
		})
	}
}

// An eviction ends what a majority has. The second phase may be writing the hold's token meanwhile, so a
// server with another token is asked again, and each of the ended holds counts.
func TestAnEvictionCountsWhatAMajorityEnded(t *testing.T) {
	for _, test := range []struct {
		said  [3][]string // by server, one after the other; the last one is repeated
		want  string
		tries int
	}{
		{[3][]string{{"evicted 1"}, {"evicted 3"}, {"evicted 2"}}, "evicted 2", 1},
		{[3][]string{{"free"}, {"free"}, {"free"}}, "free", 1},
		{[3][]string{{"changed 20"}, {"changed 30"}, {"changed 25"}}, "changed 25", 1},
		{[3][]string{{"evicted 1"}, {"changed 20", "evicted 2"}, {"changed 20"}}, "evicted 2", 2},
		{[3][]string{{"evicted 1", "free"}, {"changed 20"}, {"changed 30"}}, "changed 20", 4},
		{[3][]string{{"evicted 1"}, {"nonsense"}, {"evicted 2"}}, "evicted 1", 1},
	} {
		inside(t, func(t *testing.T, s *Store, acq *acquisition) {
			var mu sync.Mutex
			asked := make([]int, 3)
			s.say(func(i int, action string, _ []string) (string, error) {
				if action == "inspect" {
					return "absent", nil
				}
				mu.Lock()
				defer mu.Unlock()
				asked[i]++
				return test.said[i][min(asked[i], len(test.said[i]))-1], nil
			})
			answer, err := s.evict(t.Context(), []string{acq.key}, []string{"ops", "test", "0", "7000", "push:"})
			assert.True(t, answer == test.want && err == nil, "%v: %q, %v", test, answer, err)
			assert.Equal(t, slices.Max(asked), test.tries, "tries")
		})
	}
}

// What is known of a client may be known to one server alone, and that one may be the last to answer, or silent
// until now.
func TestOneServerThatKnowsAClientIsEnough(t *testing.T) {
	for said, want := range map[[3]string]string{
		{"unknown", "unknown", "client a"}: "client a",
		{"client a", "unknown", "unknown"}: "client a",
		{"!", "!", "client a"}:             "client a",
		{"unknown", "!", "!"}:              "unknown",
		{"!", "!", "!"}:                    "",
	} {
		inside(t, func(t *testing.T, s *Store, acq *acquisition) {
			s.say(func(i int, _ string, _ []string) (string, error) {
				time.Sleep(time.Duration(i) * 10 * time.Millisecond)
				if said[i] == "!" {
					return "", errBroken
				}
				return said[i], nil
			})
			if said[0] == "!" {
				s.nodes[2].noteAnswers(false, s.now(), 0)
			}
			answer, err := s.readClient(t.Context(), []string{acq.key}, nil)
			assert.True(t, answer == want && (err == nil) == (want != ""), "%v: %q, %v, want %q", said, answer,
				err, want)
		})
	}
}

// An attempt that the quorum does not know is the business of the first server that answers, be it with a
// refusal.
func TestAnUnknownAttemptIsOfTheFirstServerThatAnswers(t *testing.T) {
	refused := &store.ServerError{Code: "ERR", Message: "ERR wrong"}
	for n, first := range []error{nil, refused, errBroken} {
		inside(t, func(t *testing.T, s *Store, acq *acquisition) {
			order := s.order(acq.key)
			var asked []int // one after the other
			s.say(func(i int, _ string, _ []string) (string, error) {
				asked = append(asked, i)
				if i == order[0] {
					return "none", first
				}
				return "withdrawn", nil
			})
			answer, err := s.cancel(t.Context(), []string{acq.key}, []string{"d/7", "7000", "push:"})
			if errors.Is(first, errBroken) {
				assert.True(t, answer == "withdrawn" && err == nil, "%q, %v", answer, err)
				assert.EqualSlices(t, asked, order[:2], "asked")
				return
			}
			assert.True(t, answer == "none" && errors.Is(err, first), "%d: %q, %v", n, answer, err)
			assert.EqualSlices(t, asked, order[:1], "asked")
		})
	}
}

// If a server cannot tell which permissions its user has, the quorum cannot.
func TestPermissionsAreThoseOfAllServers(t *testing.T) {
	for said, want := range map[[3]string]string{
		{"permitted", "permitted", "permitted"}:           "permitted",
		{"permitted", "unknown", "permitted"}:             "unknown",
		{"missing b c", "unknown", "missing a b"}:         "missing a b c @node 1, node 3",
		{"permitted", "missing publish", "permitted"}:     "missing publish @node 2",
		{"missing publish", "permitted", "!"}:             "missing publish @node 1",
		{"missing publish", "missing publish", "unknown"}: "missing publish @node 1, node 2",
	} {
		inside(t, func(t *testing.T, s *Store, acq *acquisition) {
			s.sayEach(said[:]...)
			answer, err := s.checkACL(t.Context(), []string{acq.key}, nil)
			assert.True(t, answer == want && err == nil, "%v: %q, %v, want %q", said, answer, err, want)
		})
	}
}

// The quorum can do what the least of its servers can, and a replica cannot be one of them.
func TestAQuorumIsAsOldAsItsOldestServer(t *testing.T) {
	info := func(version string) store.ServerInfo {
		return store.ServerInfo{Product: "redis", Version: version, Role: "master", Address: "at-" + version}
	}
	u := united(map[int]store.ServerInfo{0: info("7.2.1"), 1: info("7.0.9"), 2: info("7.0.15")})
	assert.Equal(t, u.Version, "7.0.9", "the version")
	assert.Equal(t, u.Address, "at-7.2.1,at-7.0.9,at-7.0.15", "the addresses")
	replica := info("9.0.0")
	replica.Role = "slave"
	u = united(map[int]store.ServerInfo{0: info("7.2.1"), 1: replica, 2: info("7.0.15")})
	assert.True(t, u.Role == "slave" && u.Address == "at-9.0.0" && u.Mode == "quorum", "with a replica: %+v", u)
	for pair, want := range map[[2]string]bool{
		{"7.0.9", "7.0.15"}: true, {"7.0.15", "7.0.9"}: false, {"9.9.9", "10.0.0"}: true, {"10.0.0", "9.9.9"}: false,
		{"7.0.9", "7.0.9"}: false, {"6.2.0", "7.0.0"}: true,
	} {
		assert.Equal(t, older(pair[0], pair[1]), want, "%v", pair)
	}
}

// A caller that is told that the lock is held may try again at once. It must not meet its own hold then.
func TestATryThatFailsWaitsUntilItsOwnHoldIsCancelled(t *testing.T) {
	for _, holds := range []bool{false, true} {
		inside(t, func(t *testing.T, s *Store, acq *acquisition) {
			s.say(func(int, string, []string) (string, error) {
				time.Sleep(100 * time.Millisecond)
				return "released", nil
			})
			for i, na := range acq.round.attempts {
				na.reply, na.lastAnswer = majority.Busy, wire.Answer{
					Kind: wire.Busy, Holder: fmt.Sprintf("d/%d.7", i), Left: time.Duration(i+1) * second,
				}
			}
			acq.round.attempts[2].holds = holds
			began := s.now()
			answer, err := acq.conclude(t.Context(), acq.round, majority.Taken, second)
			first := acq.round.order[0]
			assert.True(t, err == nil && answer == fmt.Sprintf("busy %d000 d/%d", first+1, first), "%q, %v",
				answer, err)
			assert.Equal(t, s.now()-began > 0, holds, "holds: %v, it has waited", holds)
			assert.True(t, s.find(acq.key, "c/1") == nil, "it is still known")
			acq.round.wantEnded(t)
		})
	}
}

// A client sends no cancel after a refusal. So the attempt is forgotten with it, and otherwise it is not.
func TestAnAttemptThatIsRefusedIsForgotten(t *testing.T) {
	for _, why := range []error{&store.ServerError{Code: "NOPERM", Message: "NOPERM no"}, errBroken} {
		inside(t, func(t *testing.T, s *Store, acq *acquisition) {
			for _, na := range acq.round.attempts {
				na.reply, na.err = majority.Failed, why
			}
			_, err := acq.conclude(t.Context(), acq.round, majority.TooFew, second)
			assert.Is(t, err, why)
			assert.Equal(t, s.find(acq.key, "c/1") == nil, isRefusal(why), "%v: it is forgotten", why)
		})
	}
}

// Several locks are acquired as each would be alone, and a refusal names the lock that is not free.
func TestSeveralLocksAreAskedForAsEachIs(t *testing.T) {
	inside(t, func(t *testing.T, s *Store, acq *acquisition) {
		var mu sync.Mutex
		asked := make(map[string]bool)
		s.say(func(_ int, action string, args []string) (string, error) {
			mu.Lock()
			defer mu.Unlock()
			if action == "acquire" {
				asked[strings.Join(args[1:], " ")] = true
			}
			return asMemory, nil
		})
		keys := []string{"h:{y}", "h:{z}"}
		answer, err := s.acquireAll(t.Context(), keys, []string{"c/2", "9000", "7000", "y:", "z:"})
		assert.Must(t, err)
		assert.True(t, strings.HasPrefix(answer, "granted "), "%q", answer)
		for _, prefix := range []string{"y:", "z:"} {
			assert.True(t, asked["9000 16000 x 0 "+prefix], "asked: %v", asked)
		}
		answer, err = s.acquireAll(t.Context(), []string{"h:{w}", "h:{z}"}, []string{"c/3", "9000", "7000", "w:", "z:"})
		assert.True(t, strings.HasPrefix(answer, "busy 2 ") && strings.HasSuffix(answer, " c/2") && err == nil,
			"%q, %v", answer, err)
		synctest.Wait()
		for _, n := range s.nodes {
			got, err := n.Run(t.Context(), script.Inspect, []string{"h:{w}"}, nil)
			assert.True(t, !strings.Contains(got, "holder") && err == nil, "%q, %v", got, err)
		}
		assert.True(t, s.find("h:{w}", "c/3") == nil && s.find("h:{z}", "c/3") == nil, "it is still known")
		assert.True(t, s.find("h:{y}", "c/2") != nil && s.find("h:{z}", "c/2") != nil, "the other one is not")
	})
}

// Each server may have another token for the hold that is to end, and a server with another holder keeps it.
// What a server granted after it was read, it keeps: each is told the highest token that it had itself.
func TestAnEvictionTellsEachServerItsOwnToken(t *testing.T) {
	inside(t, func(t *testing.T, s *Store, acq *acquisition) {
		told := make([]string, 3)
		held := []string{
			"lock 10000 30 0 0 0 0\nholder x d/1.7 d 1 30 9000 5000 1",
			"lock 10000 35 0 0 0 0\nholder x d/1.8 d 1 29 9000 5000 1",
			"lock 10000 31 0 0 0 0\nholder x e/1.2 e 1 31 9000 5000 1",
		}
		s.say(func(i int, action string, args []string) (string, error) {
			if action == "inspect" && held[i] == "" {
				return "", errBroken
			} else if action == "inspect" {
				return held[i], nil
			}
			told[i] = strings.Join(args, " ")
			return "evicted 1", nil
		})
		for request, bounds := range map[string][3]string{"": {}, "id 99": {" id.0 30", " id.0 35", " id.0 31"}} {
			args := append([]string{"ops", "test", "30", "7000", "push:"}, strings.Fields(request)...)
			answer, err := s.evict(t.Context(), []string{acq.key}, args)
			assert.True(t, answer == "evicted 1" && err == nil, "%q, %v", answer, err)
			for i, token := range []string{"30", "29", "30"} {
				assert.Equal(t, told[i], "ops test "+token+" 7000 push:"+bounds[i], "server %d is told", i)
			}
		}
		held[2] = "" // nothing is known of its holders, so none of them ends
		_, err := s.evict(t.Context(), []string{acq.key}, []string{"ops", "test", "30", "7000", "push:", "id", "99"})
		assert.Must(t, err)
		synctest.Wait()
		assert.Equal(t, told[2], "ops test 30 7000 push: id.0 0", "a server that was not read is told")
	})
}

// An eviction that is repeated is of the same attempt, though the server whose token named it has ended its hold.
func TestARepeatedEvictionIsOfTheSameAttempt(t *testing.T) {
	inside(t, func(t *testing.T, s *Store, acq *acquisition) {
		var mu sync.Mutex
		told := make([][]string, 3)
		s.say(func(i int, action string, args []string) (string, error) {
			mu.Lock()
			defer mu.Unlock()
			if action == "inspect" && i == 0 && len(told[0]) > 0 {
				return "absent", nil
			} else if action == "inspect" {
				return fmt.Sprintf("lock 10000 30 0 0 0 0\nholder x d/1.7 d 1 %d 9000 5000 1", 30-i), nil
			}
			told[i] = append(told[i], args[2])
			switch {
			case len(told[i]) > 1 && i > 0:
				return "evicted 1", nil
			case i == 0:
				return "evicted 1", nil
			}
			return "changed 25", nil
		})
		answer, err := s.evict(t.Context(), []string{acq.key}, []string{"ops", "test", "30", "7000", "push:"})
		assert.True(t, answer == "evicted 1" && err == nil, "%q, %v", answer, err)
		for i, want := range []string{"30 30", "29 29", "28 28"} {
			assert.Equal(t, strings.Join(told[i], " "), want, "server %d is told", i)
		}
	})
}

// A lock is shown with the holders of a majority and the waiters of its coordinator, by the names that their
// clients know.
func TestALockIsShownAsItsClientsKnowIt(t *testing.T) {
	inside(t, func(t *testing.T, s *Store, acq *acquisition) {
		s.say(func(i int, _ string, _ []string) (string, error) {
			return fmt.Sprintf("lock 10000 %d 1 0 0 0\nholder x c/1.%d c 1 30 9000 5000 1\n"+
				"waiter 1 x d/%d.9 d 1 9500 4000", 28+i, i, i), nil
		})
		answer, err := s.inspect(t.Context(), []string{acq.key}, nil)
		assert.Must(t, err)
		want := fmt.Sprintf("lock 10000 29 1 0 0 0\nholder x c/1 c 1 30 9000 5000 1\nwaiter 1 x d/%d d 1 9500 4000",
			s.order(acq.key)[0])
		assert.Equal(t, answer, want, "it is shown as")
	})
}

// Requests to a late server are sent in the order in which they came.
func TestRequestsToALateServerKeepTheirOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w lateWindow
		for range 4 {
			assert.Must(t, w.enter(script.Acquire, second, nil))
		}
		w.leave(true) // two of the other three are too many now
		for range 3 {
			go func() { assert.NoError(t, w.enter(script.Acquire, time.Minute, nil)) }()
		}
		synctest.Wait()
		assert.Must(t, w.enter(script.Renew, second, nil)) // a holder does not wait
		// Each answer makes room for one more than itself.
		for answers, left := range []int{3, 1, 0, 0} {
			before := slices.Clone(w.waiting)
			w.leave(false)
			assert.MustEqual(t, len(w.waiting), left, "still waiting after %d answers", answers+1)
			assert.EqualSlices(t, w.waiting, before[len(before)-left:], "the last of them wait")
		}
	})
}

// A node is opened once, for all who need it, and after a failure not at once again.
func TestALazyNodeIsOpenedOnce(t *testing.T) {
	inside(t, func(t *testing.T, _ *Store, _ *acquisition) {
		opens, fails := 0, true
		l := &lazy{open: func() (store.Store, error) {
			opens++
			time.Sleep(10 * time.Millisecond)
			if fails {
				return nil, errBroken
			}
			return memstore.New(), nil
		}}
		get := func(want error, tries int) {
			t.Helper()
			var all sync.WaitGroup
			for range 2 {
				all.Go(func() {
					_, err := l.get(t.Context())
					assert.True(t, errors.Is(err, want) && (want == nil || errors.Is(err, store.ErrNotSent)), "%v", err)
				})
			}
			all.Wait()
			assert.Equal(t, opens, tries, "it was opened")
		}
		get(errBroken, 1)
		time.Sleep(retryPause - 1)
		get(errBroken, 1)
		time.Sleep(1)
		get(errBroken, 2)
		time.Sleep(retryPause)
		assert.True(t, l.Unwrap() == nil, "it is open")
		fails = false
		get(nil, 3)
		get(nil, 3)
		assert.True(t, l.Unwrap() != nil, "it is not open")
	})
}

// A request whose turn comes at the moment in which it gives up is sent, or leaves its place to others.
func TestNoPlaceAtALateServerIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for range 32 { // each time another one may be first
			var w lateWindow
			for range 4 {
				assert.Must(t, w.enter(script.Acquire, second, nil))
			}
			w.leave(true)
			time.AfterFunc(second, func() {
				for range 3 {
					w.leave(false)
				}
			})
			if err := w.enter(script.Acquire, second, nil); err == nil {
				w.leave(false)
			}
			synctest.Wait()
			assert.True(t, w.window.Idle() && len(w.waiting) == 0, "a place is taken, or somebody waits")
		}
	})
}

// What a holder sends waits for nothing: a lease that is lost or released late costs more than a request of a
// waiter.
func TestWhoseRequestsWaitForALateServer(t *testing.T) {
	for action, want := range map[*script.Script]bool{
		script.Release: false, script.ReleaseAfter: false, script.Renew: false, script.RaiseFence: false,
		script.MarkServer: false, script.Acquire: true, script.Poll: true, script.Cancel: true, script.Inspect: true,
	} {
		assert.Equal(t, limited(action), want, "%s waits", action.Name)
	}
}

// A request that waited for a node to be opened, until its time was over, was not sent.
func TestARequestToANodeThatIsNotOpenWasNotSent(t *testing.T) {
	inside(t, func(t *testing.T, _ *Store, _ *acquisition) {
		hang := make(chan struct{})
		l := Lazy(func() (store.Store, error) { <-hang; return nil, errBroken })
		defer close(hang)
		ctx, cancel := context.WithTimeout(t.Context(), second)
		defer cancel()
		_, err := l.Run(ctx, script.Acquire, nil, nil)
		assert.True(t, notSent(err) && errors.Is(err, context.DeadlineExceeded), "%v", err)
	})
}

package integrate_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/compat/bridge"
	"github.com/holdfast-go/holdfast/compat/redislock"
	"github.com/holdfast-go/holdfast/compat/redisson"
	"github.com/holdfast-go/holdfast/compat/redsync"
	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/childproc"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/script"
	"github.com/holdfast-go/holdfast/store"
)

// wires are the old forms.
var wires = map[string]func(store.Store) store.Store{
	"redsync":   func(s store.Store) store.Store { return redsync.NewStore(s) },
	"redislock": func(s store.Store) store.Store { return redislock.NewStore(s) },
	"redisson":  func(s store.Store) store.Store { return redisson.New(s, redisson.Config{}) },
}

// bridgeTTL is longer than a test needs for its steps, because nobody renews between them. Nobody waits for its end.
const bridgeTTL = 10 * time.Minute

// newBridge is the lock of one process. wrap changes the store that its two clients use.
func newBridge(cfg childConfig, stage bridge.Stage, wrap func(store.Store) store.Store) (*bridge.Mutex, error) {
	s := wrap(open(cfg.Addr))
	old, err := holdfast.New(wires[cfg.Wire](s), holdfast.Config{TTL: bridgeTTL})
	if err != nil {
		return nil, err
	}
	native, err := holdfast.New(s, holdfast.Config{TTL: bridgeTTL, Prefix: redistest.Prefix()})
	if err != nil {
		return nil, err
	}
	byHand := holdfast.NoRenewal() // else a slow machine would add steps
	return bridge.New(stage, old.Mutex(cfg.Name, byHand), native.Mutex(cfg.Name, byHand)), nil
}

// step is a moment at which a process may be killed.
type step struct {
	When   string `json:"when"` // before or after a request
	Action string `json:"action"`
	Inside bool   `json:"inside"` // the process works under the lock
	End    bool   `json:"end"`    // it has done all
	Error  string `json:"error"`
}

// stepping is a store that stops before and after each request until it is told to go on.
type stepping struct {
	store.Store
	stop func(when, action string)
}

// Run implements store.Store.
func (s *stepping) Run(ctx context.Context, action *script.Script, keys, args []string) (string, error) {
	s.stop("before", action.Name)
	answer, err := s.Store.Run(ctx, action, keys, args)
	s.stop("after", action.Name)
	return answer, err
}

// bridgeChild acquires both forms, renews them and releases them, a step at a time.
func bridgeChild(cfg childConfig, orders *bufio.Scanner, out io.Writer) error {
	var inside atomic.Bool
	var mu sync.Mutex // a step at a time
	tell := json.NewEncoder(out)
	stop := func(when, action string) {
		mu.Lock()
		defer mu.Unlock()
		if err := tell.Encode(step{When: when, Action: action, Inside: inside.Load()}); err == nil {
			orders.Scan() // go on, or the kill
		}
	}
	m, err := newBridge(cfg, bridge.Both, func(s store.Store) store.Store { return &stepping{s, stop} })
	if err != nil {
		return err
	}
	lease, err := m.Lock(context.Background())
	if err == nil {
		inside.Store(true)
		err = lease.Extend(context.Background(), bridgeTTL)
		inside.Store(false)
		err = errors.Join(err, lease.Release(context.Background()))
	}
	last := step{End: true}
	if err != nil {
		last.Error = err.Error()
	}
	mu.Lock()
	defer mu.Unlock()
	return tell.Encode(last)
}

// stepper is such a process.
type stepper struct {
	*childproc.Process
	steps chan step
}

func startStepper(t *testing.T, cfg childConfig) *stepper {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), envChild+"=bridge")
	p := &stepper{steps: make(chan step, 9)}
	var err error
	p.Process, err = childproc.Start(cmd, cfg, func(line []byte) {
		var at step
		if err := json.Unmarshal(line, &at); err != nil {
			at = step{End: true, Error: fmt.Sprintf("%s: %v", line, err)}
		}
		p.steps <- at
	}, func(err error, stderr string) { p.steps <- step{End: true, Error: fmt.Sprint(err, " ", stderr)} })
	assert.Must(t, err)
	t.Cleanup(p.Destroy)
	return p
}

// count is how many steps the process makes if nobody kills it.
func (p *stepper) count(t *testing.T) int {
	t.Helper()
	for n := 0; ; n++ {
		at := redistest.Next(t, "a step", p.steps)
		assert.MustTrue(t, at.Error == "", "%v", at.Error)
		if at.End {
			return n
		}
		p.Tell("go on")
	}
}

// instanceOf is a lock of a process of the test.
func instanceOf(t *testing.T, cfg childConfig, stage bridge.Stage) *bridge.Mutex {
	t.Helper()
	m, err := newBridge(cfg, stage, func(s store.Store) store.Store { return s })
	assert.Must(t, err)
	return m
}

// A process that holds both forms is killed before and after each request of its acquisition, its
// renewal and its release. While it works, it excludes the stages before and after. After its death each
// form is free within its TTL.
func TestAProcessAtBothIsKilledAtEachStep(t *testing.T) {
	t.Parallel()
	for wire := range wires {
		t.Run(wire, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t, redistest.Clock(), redistest.AllowAll()) // all for the old form
			cfg := childConfig{Addr: server.Addr(), Wire: wire, Name: "whole"}
			total := startStepper(t, cfg).count(t)
			if total < 12 { // two requests to acquire, two to renew, two to release
				t.Fatalf("%d steps", total)
			}
			inside := 0
			for n := 1; n <= total; n++ {
				cfg.Name = fmt.Sprintf("killed/%d", n)
				if killAt(t, server, cfg, n) {
					inside++
				}
			}
			if inside < 4 { // before and after each of the two renewals
				t.Errorf("only %d steps were under the lock", inside)
			}
			server.MoveClock(bridgeTTL)
			for n := 1; n <= total; n++ {
				cfg.Name = fmt.Sprintf("killed/%d", n)
				lease, err := instanceOf(t, cfg, bridge.Both).Lock(t.Context())
				assert.MustTrue(t, err == nil, "%s: %v", cfg.Name, err)
				err = lease.Release(t.Context())
				assert.True(t, err == nil, "%s: %v", cfg.Name, err)
			}
		})
	}
}

// killAt kills a process at its nth step. It reports whether the process worked under the lock. A process may need
// fewer steps than the one that was counted: a slow answer costs that one a request more.
func killAt(t *testing.T, server *redistest.Server, cfg childConfig, n int) (inside bool) {
	t.Helper()
	p := startStepper(t, cfg)
	for range n - 1 {
		at := redistest.Next(t, "a step", p.steps)
		if at.End {
			assert.MustTrue(t, at.Error == "", "it ended before step %d: %s", n, at.Error)
			return false
		}
		p.Tell("go on")
	}
	at := redistest.Next(t, "the step", p.steps)
	if at.Inside {
		for _, stage := range []bridge.Stage{bridge.Old, bridge.Native} {
			_, err := instanceOf(t, cfg, stage).TryLock(t.Context())
			assert.True(t, errors.Is(err, holdfast.ErrHeld), "%+v: the stage %v beside it: %v", at, stage, err)
		}
	}
	assert.Must(t, p.Kill())
	left, _ := server.Do(t, "PTTL", cfg.Name).(int64) // the key of the old form; -2: there is none
	assert.True(t, left != -1 && left <= bridgeTTL.Milliseconds(), "%+v: the old form is held for %d ms", at, left)
	info, err := newClient(t, server).Inspect(t.Context(), cfg.Name)
	assert.Must(t, err)
	for _, h := range info.Holders {
		assert.True(t, h.Remaining <= bridgeTTL, "%+v: the native form is held for %v", at, h.Remaining)
	}
	return at.Inside
}

package rules_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/verify/internal/harness"
)

const (
	readingProcesses = 10
	readersEach      = 100
	laterEach        = 5
)

// readingChild reads with many at once, and obeys its standard input:
//
//	held TOKEN     when all of them are in
//	kept out       asked for "later" ones: from now on a reader has to wait
//	later TOKEN    one of those is in
//	released       asked to "release" the first ones
func readingChild(c *holdfast.Client, name string) error {
	m := c.RWMutex(name)
	ctx := context.Background()
	var leases []*holdfast.Lease
	for range readersEach {
		l, err := m.RLock(ctx)
		if err != nil {
			return err
		}
		leases = append(leases, l)
	}
	fmt.Println("held", leases[readersEach-1].Token())
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		switch in.Text() {
		case "later":
			if err := untilKeptOut(ctx, m); err != nil {
				return err
			}
			fmt.Println("kept out")
			for range laterEach {
				go func() {
					if l, err := m.RLock(ctx); err != nil {
						fmt.Println("failed", err)
					} else {
						fmt.Println("later", l.Token())
					}
				}()
			}
		case "release":
			for _, l := range leases {
				if err := l.Release(ctx); err != nil {
					fmt.Println("failed", err)
				}
			}
			fmt.Println("released")
		}
	}
	return nil
}

// untilKeptOut comes and goes as a reader until it is refused. For a moment
// after the server's last word a process does not know of a writer that waits.
func untilKeptOut(ctx context.Context, m *holdfast.RWMutex) error {
	for tick := time.NewTicker(2 * time.Millisecond); ; <-tick.C {
		l, err := m.TryRLock(ctx)
		if errors.Is(err, holdfast.ErrHeld) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := l.Release(ctx); err != nil {
			return err
		}
	}
}

// A thousand readers in ten processes cost the server ten holders. A writer
// that arrives waits for those, and not for readers that come after it; these
// come in together when it has left.
func TestAThousandReadersOfTenProcessesAreTenHolders(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		c, _ := w.local(t, holdfast.Config{TTL: time.Minute})
		all := make([]*harness.Child, readingProcesses)
		for i := range all {
			all[i] = startKind(t, w.Addr(), "readers", "x", time.Minute, envUses+"="+w.adapter.Name)
		}
		var highest uint64
		for _, p := range all {
			highest = max(highest, p.Token(t, "held"))
		}
		s := state(t, c, "x")
		assert.True(t, len(s.Holders) == readingProcesses,
			"%d readers are %d holders", readingProcesses*readersEach, len(s.Holders))
		for _, h := range s.Holders {
			assert.True(t, strings.HasSuffix(h.HolderID, "/1"), "%s: a process has asked more than once", h.HolderID)
		}

		writer := harness.Acquiring(harness.Within(t), c.RWMutex("x").Lock)
		queued(t, c, 1)
		for _, p := range all {
			p.Order("later")
			p.Hear(t, "kept")
		}
		queued(t, c, 1+readingProcesses) // one for the later ones of each
		for _, p := range all[1:] {
			p.Order("release")
			p.Hear(t, "released")
		}
		redistest.Await(t, "one process still reads", func() bool { return len(state(t, c, "x").Holders) == 1 })
		select {
		case o := <-writer:
			t.Fatalf("the writer is in beside a reader: %v", o.Err)
		default:
		}
		all[0].Order("release")
		wl := harness.Granted(t, writer)
		assert.True(t, wl.Token() > highest,
			"the writer's token is %d, a reader before it had %d", wl.Token(), highest)
		if s := state(t, c, "x"); len(s.Holders) != 1 || len(s.Waiters) != readingProcesses {
			t.Errorf("beside the writer %d hold, and %d wait", len(s.Holders)-1, len(s.Waiters))
		}

		harness.Release(t, wl)
		for _, p := range all {
			for range laterEach {
				if token := p.Token(t, "later"); token <= wl.Token() {
					t.Errorf("a reader after the writer has token %d, the writer %d", token, wl.Token())
				}
			}
		}
		if s := state(t, c, "x"); len(s.Holders) != readingProcesses || len(s.Waiters) != 0 {
			t.Errorf("the later ones are %d holders, and %d wait", len(s.Holders), len(s.Waiters))
		}
	})
}

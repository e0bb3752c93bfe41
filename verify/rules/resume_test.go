package rules_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/observe"
	"github.com/holdfast-go/holdfast/verify/internal/harness"
)

// term is what a leader's process has saved.
type term struct {
	holder string
	number uint64
}

// killedLeader is the term of a leader whose process is killed.
func killedLeader(t *testing.T, w *world, ttl time.Duration) term {
	t.Helper()
	p := startKind(t, w.Addr(), "lead", "e", ttl, envUses+"="+w.adapter.Name)
	saved := term{number: p.Token(t, "held")}
	saved.holder = p.Hear(t, "holder")
	p.Die()
	return saved
}

// resuming resumes in a goroutine of its own.
func resuming(ctx context.Context, e *holdfast.Election, saved term) (<-chan *holdfast.Leadership, <-chan error) {
	led, failed := make(chan *holdfast.Leadership, 1), make(chan error, 1)
	go func() {
		l, err := e.Resume(ctx, saved.holder, saved.number)
		if err != nil {
			failed <- err
			return
		}
		led <- l
	}()
	return led, failed
}

func resign(t *testing.T, l *holdfast.Leadership) {
	t.Helper()
	assert.NoError(t, l.Release(harness.Within(t)))
}

// wantLeads asserts that others see this leadership, with the value of before the restart.
func wantLeads(t *testing.T, c *holdfast.Client, l *holdfast.Leadership, saved term) {
	t.Helper()
	seen, err := c.Election("e").Leader(harness.Within(t))
	assert.Must(t, err)
	if seen.Token != l.Token() || seen.HolderID != l.HolderID() ||
		seen.Value != "the child" || l.Value() != "the child" {
		t.Errorf("term %d of %s with %q is seen; it is term %d of %s with %q",
			seen.Token, seen.HolderID, seen.Value, l.Token(), l.HolderID(), l.Value())
	}
	if l.Token() <= saved.number || l.HolderID() == saved.holder || l.Err() != nil {
		t.Errorf("term %d of %s, %v; before the restart it was %d of %s",
			l.Token(), l.HolderID(), l.Err(), saved.number, saved.holder)
	}
}

// A leader's process is killed and starts again. Another candidate waits all the time, and
// leads only after the restarted leader has resigned.
func TestAKilledLeaderResumesAfterItsRestart(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		const ttl = 4 * time.Second
		saved := killedLeader(t, w, ttl)
		other, seen := w.local(t, holdfast.Config{TTL: ttl})
		waits := make(chan *holdfast.Leadership, 1)
		go func() {
			if l, err := other.Election("e").Campaign(harness.Within(t), "other"); err == nil {
				waits <- l
			}
		}()
		seen.Await(t, observe.EventWait, "e", 1)
		c, _ := w.local(t, holdfast.Config{TTL: ttl})
		start := time.Now()
		holders := state(t, other, "e").Holders
		assert.MustTrue(t, len(holders) == 1 && holders[0].HolderID == saved.holder,
			"the lease of the killed leader is over: %+v", holders)
		led, failed := resuming(harness.Within(t), c.Election("e"), saved)
		var l *holdfast.Leadership
		select {
		case l = <-led:
		case err := <-failed:
			t.Fatalf("Resume: %v", err)
		}
		early := holders[0].Remaining - time.Since(start)
		assert.True(t, early <= 0, "it leads %v before the former lease would have ended", early)
		wantLeads(t, other, l, saved)
		_, err := c.Election("e").ResumeAtOnce(harness.Within(t), saved.holder, saved.number)
		assert.False(t, !errors.Is(err, holdfast.ErrNotHeld), "the term is resumed twice: %v", err)
		assert.NoError(t, l.Err())
		resign(t, l)
		resign(t, redistest.Next(t, "the other candidate", waits))
	})
}

// The server restarts while the resumption waits. If it keeps its data, the restarted leader
// leads. If it is empty then, nobody does: another candidate may lead already.
func TestAResumptionWhileTheServerRestarts(t *testing.T) {
	for name, args := range map[string][]string{
		"Kept":  {"--appendonly", "yes", "--appendfsync", "always"},
		"Empty": nil,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, a := range harness.Adapters {
				t.Run(a.Name, func(t *testing.T) {
					t.Parallel()
					resumeWhileItRestarts(t, &world{redistest.Start(t, redistest.Args(args...)), a}, args != nil)
				})
			}
		})
	}
}

func resumeWhileItRestarts(t *testing.T, w *world, kept bool) {
	saved := killedLeader(t, w, 6*time.Second)
	c, _ := w.local(t, holdfast.Config{TTL: 6 * time.Second, RequestTimeout: 500 * time.Millisecond})
	w.warm(t, c)
	led, failed := resuming(harness.Within(t), c.Election("e"), saved)
	redistest.Await(t, "the resumption", func() bool {
		holders := state(t, c, "e").Holders
		return len(holders) == 1 && strings.HasPrefix(holders[0].HolderID, c.ID())
	})
	w.Kill()
	w.Restart()
	select {
	case l := <-led:
		assert.True(t, kept, "it leads by the word of a server that has forgotten the leader")
		wantLeads(t, c, l, saved)
		resign(t, l)
	case err := <-failed:
		assert.True(t, !kept && errors.Is(err, holdfast.ErrNotHeld),
			"Resume: %v; want ErrNotHeld, from a server that has forgotten the leader", err)
	}
}

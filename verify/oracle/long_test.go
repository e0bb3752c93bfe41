package oracle

import (
	"context"
	"flag"
	"fmt"
	"slices"
	"strconv"
	"testing"

	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/script"
	"pgregory.net/rapid"
)

// A queue that is longer than what one step visits, most of it waiters of clients that have gone.
// Both sides must agree where a walk ends and goes on. Guarantee: I11.
func TestLongLines(t *testing.T) {
	fewer(t, 5)
	srv := newServer(t)
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld(srv, rt)
		defer w.close()
		m := &wild{world: w}
		m.step(script.Acquire, "c1/1", 30_000, 90_000, pick(rt, "x", "x", "s", "p:3:3"), 0, base)
		m.crowd(rt, pick(rt, 60, 70, 140, 170))
		for _, client := range []string{"c1", "c2", "c3"} {
			if pick(rt, true, true, false) {
				m.listen(client)
			}
		}
		rt.Repeat(rapid.StateMachineActions(m))
	})
}

// A record names some of the holders that an eviction has ended, and both sides name the same ones,
// also if they are entries of one owner. Guarantee: I11.
func TestManyEvicted(t *testing.T) {
	fewer(t, 100)
	srv := newServer(t)
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld(srv, rt)
		defer w.close()
		m := &wild{world: w}
		want, owner := "s", []any(nil)
		if pick(rt, true, false) {
			want, owner = "x", []any{"alice"}
		}
		for i := range 300 {
			m.step(script.Acquire, append([]any{fmt.Sprintf("d%d/1", i), 30_000, 90_000, want, 0, base}, owner...)...)
		}
		m.step(script.Evict, "ann", "test", 0, 60_000, base)
		m.step(script.Renew, 60_000, 3000, "d0/1", "d299/1")
		m.step(script.Inspect)
	})
}

// crowd adds n waiters. Some of them, at drawn positions, are attempts of the test.
func (m *wild) crowd(rt *rapid.T, n int) {
	at := map[int]string{}
	for _, id := range []string{"c1/2", "c2/1", "c2/2", "c3/1"} {
		at[rapid.IntRange(0, n).Draw(rt, "position")] = id
	}
	want, patience := pick(rt, "x", "x", "s", "p:2:3"), pick(rt, 5000, 60_000, 600_000)
	if want != "x" {
		n = min(n, 200) // of more expired holders, each side ends others in a step
	}
	m.conn.Send(m.t, "DEL", clockKey)
	m.conn.Send(m.t, "RPUSH", clockKey, m.micros/1e6, m.micros%1e6)
	m.owed += 2
	join := func(id, want string, words ...string) {
		args := append([]string{id, "30000", "90000", want, fmt.Sprint(patience), base}, words...)
		if _, err := m.spec.Run(context.Background(), script.Acquire, []string{key}, args); err != nil {
			rt.Fatal(err)
		}
		call := []any{"EVALSHA", m.sha[script.Acquire.Name], 1, key}
		for _, arg := range args {
			call = append(call, arg)
		}
		m.conn.Send(m.t, call...)
		m.owed++
	}
	// A writer is first, or readers would not wait.
	join("d/0", "x")
	for position := range n {
		if id := at[position]; id != "" {
			join(id, pick(rt, "x", "s", "p:2:3"), slices.Repeat([]string{"alice"}, pick(rt, 0, 1))...)
			continue
		}
		join(fmt.Sprintf("d%d/1", position), want, slices.Repeat([]string{"alice"}, position/7%2)...)
	}
	m.setLife()
	m.step(script.ReadLeader)
}

// fewer divides the number of sequences of a test whose steps are as much more work.
func fewer(t *testing.T, by int) {
	t.Helper()
	number := flag.Lookup("rapid.checks")
	all := number.Value.String()
	n, err := strconv.Atoi(all)
	if err == nil {
		err = number.Value.Set(strconv.Itoa(max(n/by, 1)))
	}
	assert.Must(t, err)
	t.Cleanup(func() { _ = number.Value.Set(all) })
}

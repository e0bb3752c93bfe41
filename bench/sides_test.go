package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/bench/crew"
	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// serve works one job in this process, as a worker does.
func serve(t *testing.T, j crew.Job) crew.Tally {
	t.Helper()
	in, err := json.Marshal(j)
	check(t, err)
	var out bytes.Buffer
	check(t, crew.Serve(bytes.NewReader(in), &out, openSide))
	var report struct {
		Tally crew.Tally
		Error string
	}
	check(t, json.Unmarshal(out.Bytes(), &report))
	assert.MustTrue(t, report.Error == "", "%v", report.Error)
	return report.Tally
}

// A lock that two goroutines held at once would win every comparison.
func TestEverySideLetsOneInAtATime(t *testing.T) {
	server := redistest.Start(t)
	for _, s := range sides() {
		t.Run(s.name, func(t *testing.T) {
			j := crew.Job{Side: s.name, Addr: server.Addr(), Name: s.name, Clients: 2, Each: 2, Shift: crew.Shift{
				For: 500 * time.Millisecond, Grace: patience, Record: true,
			}}
			if strings.HasPrefix(s.name, "raw-") {
				j.Kind = kindToken
				server.Do(t, "RPUSH", s.name, "1")
			}
			tally := serve(t, j)
			if len(tally.Turns) == 0 || tally.Sum()+tally.Late != len(tally.Turns) {
				t.Errorf("%d turns, counted %d and %d", len(tally.Turns), tally.Sum(), tally.Late)
			}
			slices.SortFunc(tally.Turns, func(a, b crew.Turn) int { return int(a.Got - b.Got) })
			for i, turn := range tally.Turns[1:] {
				if before := tally.Turns[i]; turn.Got < before.Left {
					t.Errorf("one had the lock until %d, the next from %d", before.Left, turn.Got)
				}
			}
		})
	}
}

func TestLocksByChance(t *testing.T) {
	server := redistest.Start(t)
	redistest.Await(t, "chance has taken each lock", func() bool {
		tally := serve(t, crew.Job{
			Side: ours(kits[0]).name, Addr: server.Addr(), Name: "some", Keys: 5, Clients: 1, Each: 4,
			Shift: crew.Shift{For: 500 * time.Millisecond, Sample: true},
		})
		turns := tally.Sum() + tally.Late
		assert.Equal(t, len(tally.Samples), turns, "samples of %d turns", turns)
		keys, _ := server.Do(t, "KEYS", "holdfast:{some/*").([]any)
		return len(keys) == 5
	})
}

func TestEveryKindIsEnteredAndLeft(t *testing.T) {
	r := newRig(t, kits[0])
	c := r.party.client(t, holdfast.Config{})
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for _, kind := range kinds {
		enter, err := enterKind(c, kind, "kind/"+kind)
		check(t, err)
		for range 2 {
			seq, leave, err := enter(ctx)
			assert.MustTrue(t, err == nil && seq != 0, "%s: number %d, %v", kind, seq, err)
			check(t, leave(ctx))
		}
		state, err := c.Inspect(ctx, "kind/"+kind)
		check(t, err)
		assert.False(t, state.Held(), "%s is held after it was left", kind)
	}
	assert.True(t, assert.Err(enterKind(c, "drawer", "x")) != nil, "a kind that is none was entered")
	for _, s := range []string{"redsync-goredis", "raw-rueidis", "nobody"} {
		side, err := openSide(s, r.server.Addr())
		if err == nil {
			_, err = side.Enter(ctx, kindRead, "x")
			side.Close()
		}
		assert.True(t, err != nil, "%s entered a read lock", s)
	}
}

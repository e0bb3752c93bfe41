package majority

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/wire"
)

func TestTwoMajoritiesShareAServer(t *testing.T) {
	for n := 1; n < 100; n++ {
		m := Of(n)
		assert.True(t, 2*m > n && 2*(m-1) <= n, "%d of %d", m, n)
	}
}

func TestTheOrderIsTheSameForAllAndSpreadsTheLocks(t *testing.T) {
	leads := make([]int, 5)
	for i := range 1000 {
		key := "holdfast:{lock-" + time.Duration(i).String() + "}"
		order := Order(key, 5)
		assert.MustTrue(t, slices.Equal(order, Order(key, 5)), "two orders for %s", key)
		leads[order[0]]++
		slices.Sort(order)
		assert.MustTrue(t, slices.Equal(order, []int{0, 1, 2, 3, 4}), "%s is asked for at %v", key, order)
	}
	assert.AtLeast(t, slices.Min(leads), 100, "the least of the leads %v of 1000", leads)
}

func TestDecide(t *testing.T) {
	const (
		o, g, q, b, f = Open, Granted, Queued, Busy, Failed
	)
	for _, test := range []struct {
		replies []Reply
		without []int // servers that do not count
		joins   bool
		want    Decision
		lead    int
	}{
		{replies: []Reply{o, o, o, o, o}, want: Undecided},
		{replies: []Reply{g, g, o, o, o}, want: Undecided},
		{replies: []Reply{g, g, g, o, o}, want: Won},
		{replies: []Reply{o, g, g, g, o}, want: Undecided},
		{replies: []Reply{o, g, g, g, g}, want: Undecided},
		{replies: []Reply{f, g, g, g, o}, want: Won, lead: 1},
		{replies: []Reply{f, o, g, g, g}, want: Undecided, lead: 1},
		{replies: []Reply{f, f, g, g, g}, want: Won, lead: 2},
		{replies: []Reply{f, f, f, g, g}, want: TooFew},
		{replies: []Reply{f, f, f, f, f}, want: TooFew},
		{replies: []Reply{q, g, g, g, g}, joins: true, want: InQueue},
		{replies: []Reply{q, o, o, o, o}, joins: true, want: InQueue},
		{replies: []Reply{b, g, g, g, g}, want: Taken},
		{replies: []Reply{f, b, g, g, g}, want: Taken, lead: 1},
		{replies: []Reply{f, b, g, g, g}, joins: true, want: JoinQueue, lead: 1},
		{replies: []Reply{g, b, b, o, o}, want: Undecided},
		{replies: []Reply{g, b, b, b, o}, want: Split},
		{replies: []Reply{g, g, b, f, b}, want: Split},
		{replies: []Reply{g, g, g, b, b}, without: []int{0}, want: Split},
		{replies: []Reply{g, g, g, o, o}, without: []int{4}, want: Won},
		{replies: []Reply{g, g, g, g, o}, without: []int{0}, want: Won},
		{replies: []Reply{g, g, g, g, g}, without: []int{0, 1, 2}, want: TooFew},
		{replies: []Reply{o, o, o, f, f}, without: []int{0}, want: TooFew},
	} {
		counts := slices.Repeat([]bool{true}, 5)
		for _, i := range test.without {
			counts[i] = false
		}
		got, coordinator := Decide(test.replies, counts, []int{0, 1, 2, 3, 4}, test.joins)
		if got != test.want || coordinator != test.lead && got != TooFew {
			t.Errorf("%v without %v: %v by %d, want %v by %d", test.replies, test.without, got, coordinator,
				test.want, test.lead)
		}
	}
}

// Whatever the replies are: no attempt wins without a majority that counts. Two attempts
// that different servers granted cannot both win.
func FuzzDecide(f *testing.F) {
	f.Add(uint32(0x12345), uint8(0), true)
	f.Fuzz(func(t *testing.T, seed uint32, out uint8, waits bool) {
		replies, rival := make([]Reply, 5), make([]Reply, 5)
		counts := make([]bool, 5)
		granted := 0
		for i := range replies {
			replies[i], rival[i] = Reply(seed%5), Granted
			counts[i] = out>>i&1 == 0
			if replies[i] == Granted {
				rival[i] = Busy
				if counts[i] {
					granted++
				}
			}
			seed /= 5
		}
		d, _ := Decide(replies, counts, []int{0, 1, 2, 3, 4}, waits)
		assert.False(t, d == Won && granted < 3, "%v wins with %d", replies, granted)
		other, _ := Decide(rival, counts, []int{0, 1, 2, 3, 4}, waits)
		assert.False(t, d == Won && other == Won, "%v and %v both win", replies, rival)
	})
}

func TestTokenIsAboveAllThatWereDrawn(t *testing.T) {
	for _, test := range []struct {
		drawn []uint64
		want  uint64
	}{
		{nil, 0},
		{[]uint64{5, 7, 6}, 8},
		{[]uint64{7, 7, 6}, 8},
		{[]uint64{7, 7, 7}, 7}, // agreed before
		{[]uint64{7, 7, 7, 6, 5}, 7},
		{[]uint64{7, 7, 7, 9}, 10},
	} {
		assert.Equal(t, Token(test.drawn, 5), test.want, "of %v", test.drawn)
	}
}

func TestTally(t *testing.T) {
	const (
		s, h, f, n, e = Silent, Held, TooRecent, NotHeld, Evicted
	)
	for _, test := range []struct {
		votes []Vote
		want  Outcome
	}{
		{[]Vote{h, h, h, s, s}, Renewed},
		{[]Vote{h, h, s, n, n}, Unknown},
		{[]Vote{h, h, n, n, n}, Lost},
		{[]Vote{h, h, f, f, f}, Lost}, // held everywhere now, but with a break
		{[]Vote{h, h, f, f, s}, Unknown},
		{[]Vote{h, h, e, e, e}, Ended},
		{[]Vote{h, h, h, e, e}, Renewed}, // an eviction is under way
		{[]Vote{s, s, s, s, s}, Unknown},
		{[]Vote{s, s, s, n, n}, Unknown},
		{[]Vote{s, s, n, n, n}, Lost},
	} {
		assert.Equal(t, Tally(test.votes), test.want, "%v", test.votes)
	}
}

func TestRankIsWhatAMajorityReaches(t *testing.T) {
	for _, test := range []struct {
		values []int
		want   int
	}{
		{nil, 0}, {[]int{9, 9}, 0}, {[]int{1, 9, 5}, 1}, {[]int{1, 9, 5, 7}, 5}, {[]int{1, 9, 5, 7, 7}, 7},
	} {
		assert.Equal(t, Rank(test.values, 5), test.want, "of %v", test.values)
	}
}

func TestTheClockIsARightOneOrBehindIt(t *testing.T) {
	const wrong = time.Hour // the right clocks are within a second
	for _, test := range []struct {
		known       []time.Duration
		least, most time.Duration
		ok          bool
	}{
		{[]time.Duration{0, 1, 2, 3, 4}, 0, 4, true},
		{[]time.Duration{wrong, wrong, 2, 3, 4}, 2, 4, true},
		{[]time.Duration{-wrong, wrong, 2, 3, 4}, 2, 4, true},
		{[]time.Duration{-wrong, -wrong, 2, 3, 4}, 2, 4, true},
		{[]time.Duration{wrong, wrong, 4}, 4, 4, true},
		{[]time.Duration{wrong, 4, 3}, 3, 3, true},
		{[]time.Duration{-wrong, -wrong, 4}, -wrong, 4, true},
		{[]time.Duration{wrong, wrong, 3, 4}, 3, 4, true},
		{[]time.Duration{-wrong, 2, 3, 4}, 2, 4, true},
		{[]time.Duration{3, 4}, 0, 0, false},
		{nil, 0, 0, false},
	} {
		got, ok := Clock(test.known, 5)
		assert.True(t, ok == test.ok && got >= test.least && got <= test.most,
			"of %v: %v, %v; it must be from %v to %v, %v", test.known, got, ok, test.least, test.most, test.ok)
	}
}

func TestAServerThatIsAheadIsLeftOutWhileTheOthersCanBeAMajority(t *testing.T) {
	ahead := []bool{true, false, false, false, true}
	for _, test := range []struct {
		replies []Reply
		young   int // the server that does not count, if not 0
		without bool
	}{
		{[]Reply{Granted, Granted, Granted, Granted, Granted}, 0, true},
		{[]Reply{Granted, Granted, Open, Open, Granted}, 0, true},
		{[]Reply{Granted, Granted, Open, Failed, Granted}, 0, false},
		{[]Reply{Granted, Granted, Open, Busy, Granted}, 0, false},
		{[]Reply{Granted, Granted, Granted, Queued, Granted}, 0, false},
		{[]Reply{Granted, Granted, Granted, Granted, Granted}, 2, false},
	} {
		counts := []bool{true, true, true, true, true}
		if test.young != 0 {
			counts[test.young] = false
		}
		want := slices.Clone(counts)
		if test.without {
			want[0], want[4] = false, false
		}
		assert.EqualSlices(t, WithoutAhead(test.replies, counts, ahead), want, "%v, %v", test.replies, counts)
	}
}

func TestTimeoutsLeaveTimeForTheRest(t *testing.T) {
	const ms = time.Millisecond
	for _, test := range []struct{ configured, ttl, left, answers, want time.Duration }{
		{time.Second, 0, 0, 0, time.Second},
		{time.Second, 0, 0, time.Minute, time.Second},
		{time.Second, 5 * time.Second, 0, 0, 500 * ms},
		{time.Second, 5 * time.Second, 0, 166 * ms, 500 * ms},
		{time.Second, 5 * time.Second, 0, 200 * ms, 600 * ms},
		{time.Second, 3 * time.Second, 0, time.Minute, 750 * ms},
		{500 * ms, 3 * time.Second, 0, time.Minute, 500 * ms},
		{time.Second, time.Minute, 300 * ms, 0, 100 * ms},
		{time.Second, time.Minute, 300 * ms, 40 * ms, 120 * ms},
		{time.Second, time.Minute, 300 * ms, time.Minute, 135 * ms},
		{time.Second, 10 * ms, time.Microsecond, 0, ms},
	} {
		assert.Equal(t, RequestTimeout(test.configured, test.ttl, test.left, test.answers), test.want, "%+v", test)
	}
	for failures := range 100 {
		for _, jitter := range []float64{0, 0.5, 0.999} {
			least := min(1500*time.Millisecond<<min(failures, 5), 20*time.Second)
			d := CollectTime(500*time.Millisecond, time.Minute, failures, jitter)
			assert.True(t, d >= least && d <= 2*least, "the time to collect a majority: %v", d)
		}
	}
}

func TestTheOtherServersGetAMomentAndNotATimeout(t *testing.T) {
	const limit = 500 * time.Millisecond
	for took, want := range map[time.Duration]time.Duration{
		0: 2 * time.Millisecond, 5 * time.Millisecond: 12 * time.Millisecond, time.Second: limit,
	} {
		assert.Equal(t, Grace(took, limit), want, "after %v", took)
	}
}

func TestAHolderOnAFewServersIsNoHolder(t *testing.T) {
	has := func(attempts ...string) (r wire.Record) {
		for _, a := range attempts {
			r.Holders = append(r.Holders, wire.HolderLine{
				Mode: wire.Exclusive, Attempt: a, Token: 7, Left: time.Second,
			})
		}
		return r
	}
	for _, test := range []struct {
		records []wire.Record
		want    int
	}{
		{[]wire.Record{has("A/1"), has("A/1"), has("A/1"), has("B/1"), has()}, 1},
		{[]wire.Record{has("A/1"), has("A/1"), has("B/1"), has("B/1"), has()}, 0},
		{[]wire.Record{has("A/1"), has("A/1"), has("A/1")}, 1},
		{[]wire.Record{has("A/1"), has("A/1")}, 0},
	} {
		got := Merge(test.records, 5)
		assert.True(t, len(got.Holders) == test.want, "%+v: %+v", test.records, got.Holders)
	}
}

// A minority changes nothing, however late it is; and a majority is forgotten after some requests.
func TestThePaceIsThatOfAMajority(t *testing.T) {
	const ms = time.Millisecond
	for _, test := range []struct {
		paces []time.Duration
		want  time.Duration
	}{
		{[]time.Duration{0, 0, 0}, 0},
		{[]time.Duration{9 * ms, ms, 2 * ms}, 2 * ms},
		{[]time.Duration{time.Hour, ms, time.Hour, 2 * ms, 3 * ms}, 3 * ms},
		{[]time.Duration{time.Hour, ms, time.Hour, 2 * ms, time.Hour}, time.Hour},
	} {
		assert.Equal(t, PaceOfMost(test.paces), test.want, "%v", test.paces)
	}
	p := Pace(0, time.Second)
	assert.True(t, p == time.Second, "it rose to %v", p)
	requests := 0
	for ; p > 100*ms; requests++ {
		p = Pace(p, ms)
	}
	assert.True(t, requests == 18 && Pace(p, 2*ms) >= 2*ms,
		"it fell in %d requests to %v, want 18 requests, and no fall below the cost", requests, p)
}

// What several servers say of a lock becomes one record.
func TestOneRecordOfSeveral(t *testing.T) {
	at := func(s int64) time.Time { return time.Unix(1000+s, 0) }
	one := func(now int64, fence uint64, since int64, left time.Duration, waiters ...string) wire.Record {
		r := wire.Record{Now: at(now), Fence: fence, Holders: []wire.HolderLine{
			{
				Mode: wire.Shared, Attempt: "A/1", Weight: 1, Entries: int(fence), Token: fence,
				Since: at(since), Left: left,
			},
		}}
		for i, w := range waiters {
			r.Waiters = append(r.Waiters, wire.WaiterLine{Place: i + 1, Attempt: w})
		}
		return r
	}
	evicted := func(r wire.Record, s int64) wire.Record {
		r.Evicted = &wire.EvictedLine{At: at(s)}
		return r
	}
	r := Merge([]wire.Record{
		evicted(one(100, 7, 90, 3*time.Second, "A/1", "B/1", "C/1"), 0),
		evicted(one(50, 9, 45, time.Second, "D/1"), 2), evicted(one(70, 8, 50, 2*time.Second), 1), {Absent: true},
	}, 5)
	assert.True(t, !r.Absent && r.Now.Equal(at(100)), "%+v", r)
	assert.Equal(t, r.Fence, 7, "the fence that a majority has")
	assert.MustEqual(t, len(r.Holders), 1, "holders")
	h := r.Holders[0]
	assert.Equal(t, h.Token, 7, "the token that a majority has")
	assert.Equal(t, h.Left, time.Second, "a majority holds for another")
	assert.Equal(t, h.Entries, 9, "entries")
	assert.True(t, h.Since.Equal(at(80)), "held since %v", h.Since)
	assert.Equal(t, r.Used, 1, "readers")
	assert.True(t, r.Evicted != nil && r.Evicted.At.Equal(at(2)), "the last eviction: %+v", r.Evicted)
	assert.MustEqual(t, r.Waiting, 2, "waiters")
	for i, w := range r.Waiters {
		assert.True(t, w.Attempt == []string{"B/1", "C/1"}[i] && w.Place == i+1, "waiter %d: %+v", i, w)
	}
	r = Merge([]wire.Record{{Absent: true}, one(50, 9, 45, 0), {Absent: true}}, 5)
	assert.True(t, !r.Absent && r.Now.Equal(at(50)) && r.Fence == 0 && len(r.Holders) == 0, "%+v", r)
	assert.True(t, Merge([]wire.Record{{Absent: true}, {Absent: true}, {Absent: true}}, 5).Absent, "it is absent")
}

// A holder is left out for certain only if the servers that did not answer cannot give it a majority.
func TestWhoMayHoldBesideThoseThatAreShown(t *testing.T) {
	for _, c := range []struct {
		n       int
		records []string // the holders on each server that answered
		want    bool
	}{
		{1, []string{""}, false},
		{1, []string{"A"}, false},
		{3, []string{"", ""}, false},
		{3, []string{"A", ""}, true},
		{3, []string{"A", "A"}, false}, // it is shown
		{3, []string{"A", "", ""}, false},
		{3, []string{"A", "B", ""}, false},
		{4, []string{"A", "", ""}, false}, // three of four are a majority
		{4, []string{"A", "A", ""}, true},
		{5, []string{"A", "", ""}, true},
		{5, []string{"A", "", "", ""}, false},
		{5, []string{"A", "A", "", ""}, true},
		{5, []string{"A", "B", ""}, true},
		{5, []string{"A", "A", "A"}, false},
		{5, []string{"A B", "A B", "A"}, true}, // A reads, and B may, too
		{5, []string{"A", "A", "B", "", ""}, false},
	} {
		var records []wire.Record
		for _, names := range c.records {
			r := wire.Record{}
			for _, name := range strings.Fields(names) {
				r.Holders = append(r.Holders, wire.HolderLine{Mode: wire.Shared, Attempt: name})
			}
			records = append(records, r)
		}
		assert.Equal(t, Unproven(records, c.n), c.want, "of %d, that have %q", c.n, c.records)
	}
	r := wire.Record{Silent: []string{"10.0.0.1:6379", "node 2"}}
	read, err := wire.ParseRecord(Format(&r))
	assert.True(t, err == nil && slices.Equal(read.Silent, r.Silent), "read as %q, %v", read.Silent, err)
}

// An eviction is shown with the attempts that it ended.
func TestAnEvictionIsShownWhole(t *testing.T) {
	r := wire.Record{Evicted: &wire.EvictedLine{
		At: time.Unix(1, 0), By: "op", Reason: "test", Attempts: []string{"c/1", "d/2"},
	}}
	assert.Contains(t, Format(&r), "\nevicted 1000 op test c/1 d/2")
}

// A hold is to end if so many servers say so that the others cannot renew it.
func TestAHoldIsToEndIfAMajorityCannotRenewIt(t *testing.T) {
	record := func(ending bool) wire.Record {
		return wire.Record{Holders: []wire.HolderLine{{Mode: wire.Exclusive, Attempt: "A/1", Token: 9, Ending: ending}}}
	}
	asked, other := record(true), record(false)
	for _, c := range []struct {
		of   []wire.Record
		want bool
	}{
		{[]wire.Record{asked, asked, asked, other, other}, true},
		{[]wire.Record{asked, asked, asked}, true}, // the others do not answer
		{[]wire.Record{asked, asked, other, other, other}, false},
		{[]wire.Record{asked, asked, other}, false},
	} {
		r := Merge(c.of, 5)
		assert.True(t, len(r.Holders) == 1 && r.Holders[0].Ending == c.want, "of %v: %+v", c.of, r.Holders)
		read, err := wire.ParseRecord(Format(&r))
		assert.True(t, err == nil && read.Holders[0].Ending == c.want, "written as %q, %v", Format(&r), err)
	}
}

// Holders are listed in the order of their tokens.
func TestHoldersAreListedByToken(t *testing.T) {
	r := wire.Record{Holders: []wire.HolderLine{{Attempt: "A/1", Token: 9}, {Attempt: "B/1", Token: 7}}}
	got := Merge([]wire.Record{r, r, r}, 5).Holders
	assert.True(t, len(got) == 2 && got[0].Attempt == "B/1" && got[1].Attempt == "A/1", "%+v", got)
}

// A majority that says no can be outvoted by nobody.
func TestCount(t *testing.T) {
	for _, test := range []struct {
		yes, no  int
		has, can bool
	}{
		{3, 0, true, true}, {2, 2, false, true}, {2, 3, false, false}, {3, 2, true, true}, {0, 2, false, true},
	} {
		has, can := Count(test.yes, test.no, 5)
		assert.True(t, has == test.has && can == test.can, "%+v: has %v, can %v", test, has, can)
	}
}

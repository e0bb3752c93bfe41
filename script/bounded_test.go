package script_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/script"
)

// counted wraps a script. It counts the calls, their arguments, and the elements of their
// answers: a long text is as many as it has parts of 256 bytes.
const counted = `local calls, words = 0, 0
local function size(value)
	if type(value) == 'string' then return 1 + math.floor(#value / 256) end
	if type(value) ~= 'table' then return 1 end
	local n = 0
	for _, each in ipairs(value) do n = n + size(each) end
	return n
end
local redis = (function(real)
	local function way(f)
		return function(...)
			local got = f(...)
			calls, words = calls + 1, words + select('#', ...) + size(got)
			return got
		end
	end
	return {
		call = way(real.call),
		pcall = way(real.pcall),
		error_reply = real.error_reply,
		acl_check_cmd = real.acl_check_cmd,
	}
end)(redis)
local answer = (function()
BODY
end)()
if type(answer) == 'table' then return answer end
return {answer, calls, words}
`

// cost is the work of a script in one step.
type cost struct {
	answer       string
	calls, words int64
}

func (c cost) String() string {
	return fmt.Sprintf("%d calls and %d words (%.99s)", c.calls, c.words, c.answer)
}

func charge(t *testing.T, conn *redistest.Conn, s *script.Script, key string, args ...string) cost {
	t.Helper()
	if s == script.RaiseFence {
		return chargeAll(t, conn, s, []any{key, "bounded:mark"}, args...)
	}
	return chargeAll(t, conn, s, []any{key}, args...)
}

func chargeAll(t *testing.T, conn *redistest.Conn, s *script.Script, keys []any, args ...string) cost {
	t.Helper()
	text := s.Declaration() + strings.Replace(counted, "BODY\n", s.Body(), 1)
	words := append([]any{"EVAL", text, len(keys)}, keys...)
	for _, arg := range args {
		words = append(words, arg)
	}
	got := conn.Do(t, words...)
	reply, ok := got.([]any)
	assert.MustTrue(t, ok, "%s answers %v", s.Name, got)
	return cost{reply[0].(string), reply[1].(int64), reply[2].(int64)}
}

const ear = "bounded:" // channel prefix of the pushes; the client l subscribes

// queueUp makes a record of a lock that h/1 holds, with n waiters and then l/1.
func queueUp(t *testing.T, conn *redistest.Conn, key, mode, owner string, n int, dead, holes bool) {
	t.Helper()
	now := time.Now().UnixMilli()
	fence := fmt.Sprintf("%d000", now)
	conn.Do(t, "DEL", key)
	hold := fence + " 30000 h/1 +"
	waiting := n + 1
	if holes {
		waiting = 1
	}
	conn.Do(t, "HSET", key, "lock", hold, "birth", "1", "limit", "3", "queue", fmt.Sprintf("%d 1 %d", waiting, n+1))
	for place := 1; place <= n+1; place++ {
		id := fmt.Sprintf("l/%d", n+2-place)
		if dead && place <= n {
			id = fmt.Sprintf("d%d/1", place)
		}
		if holes && place <= n {
			continue
		}
		wants := strings.TrimSpace(fmt.Sprintf("%d %s 1 30000 %d %d %s", place, mode, now+100_000, now, owner))
		conn.Send(t, "HSET", key, fmt.Sprintf("#%d", place), id, "w:"+id, wants)
	}
	for range waiting {
		conn.Receive(t)
	}
	conn.Do(t, "PEXPIRE", key, 600_000)
}

// share makes a record of a lock that h/1 and n others share. The others expire at till, and
// soonest says that one has expired. The writer l/1 waits, behind more waiters of no client.
func share(t *testing.T, conn *redistest.Conn, mode string, n, waiters int, till time.Duration) {
	t.Helper()
	now := time.Now()
	expiry := now.Add(till).UnixMilli()
	crowded(t, conn, "{k}", fmt.Sprintf("%d 0 - +", now.UnixMicro()), fmt.Sprintf("shares %d %s 1", n+1, mode), n,
		func(i int, _ int64) []any {
			return []any{fmt.Sprintf("h:d%d/1", i), fmt.Sprintf("%s %d 1 %d 1", mode, expiry, 1000+i)}
		})
	live := now.Add(time.Minute).UnixMilli()
	conn.Do(t, "HSET", "{k}", "h:h/1", fmt.Sprintf("%s %d 1 7 1", mode, live),
		"queue", fmt.Sprintf("%d 1 %d", waiters+1, waiters+1),
		fmt.Sprintf("#%d", waiters+1), "l/1", "w:l/1", fmt.Sprintf("%d x 1 30000 %d 1", waiters+1, live))
	for place := 1; place <= waiters; place++ {
		id, wants := fmt.Sprintf("w%d/1", place), fmt.Sprintf("%d x 1 30000 %d 1", place, live)
		conn.Send(t, "HSET", "{k}", fmt.Sprintf("#%d", place), id, "w:"+id, wants)
	}
	for range waiters {
		conn.Receive(t)
	}
}

// steps are the requests on a lock that h/1 holds and l/1 waits for.
func steps(owner string) map[*script.Script][]string {
	const fence = "7"
	poll := []string{"l/1", "30000", "600000", "90000", ear}
	if owner != "" {
		poll = append(poll, owner)
	}
	return map[*script.Script][]string{
		script.Acquire:        {"n/1", "30000", "630000", "x", "90000", ear},
		script.AcquireFree:    {"30000", "630000", "n/1"},
		script.ReleaseIdle:    {"h/1"},
		script.Release:        {"h/1", fence, "600000", ear},
		script.Renew:          {"600000", "30000", "h/1"},
		script.Poll:           poll,
		script.Evict:          {"ann", "test", "0", "600000", ear},
		script.Convert:        {"h/1", fence, "s", "30000", "600000", ear},
		script.SetLimit:       {"3", "600000", ear},
		script.Lessen:         {"h/1", "1000", "1", "600000", ear},
		script.AcquireAll:     {"n/1", "30000", "600000", ear},
		script.BeginRun:       {"n/1", "30000", "600000", "60000", "-", "now", ear},
		script.Proclaim:       {"h/1", fence, "1", "=v", ear + "x", "600000"},
		script.ReadLeader:     {},
		script.Resume:         {"n/1", "h/1", fence, "30000", "600000", ear + "x", ear},
		script.ReleaseAfter:   {"h/1", fence, "1000", "100", "600000", ear},
		script.AwaitFree:      {"x", "1", "600000", ear},
		script.RaiseFence:     {"h/1", "8", "600000"},
		script.Inspect:        {""},
		script.Check:          {"6"}, // nobody has it
		script.CheckACL:       nil,   // no lock's record, from here on
		script.RegisterClient: nil,
		script.ReadClient:     nil,
		script.MarkServer:     nil,
	}
}

// The work of one script does not grow with the queue: it is the same with four thousand
// waiters as with one thousand. Guarantee: I11.
func TestNoScriptTakesLongerForALongerQueue(t *testing.T) {
	conn, _ := listening(t)
	atAnySize(t, conn, map[string]func(n int){
		"dead waiters":  func(n int) { queueUp(t, conn, "{k}", "x", "", n, true, false) },
		"holes":         func(n int) { queueUp(t, conn, "{k}", "x", "", n, false, true) },
		"live writers":  func(n int) { queueUp(t, conn, "{k}", "x", "", n, false, false) },
		"live readers":  func(n int) { queueUp(t, conn, "{k}", "s", "", n, false, false) },
		"live permits":  func(n int) { queueUp(t, conn, "{k}", "p", "", n, false, false) },
		"dead readers":  func(n int) { queueUp(t, conn, "{k}", "s", "", n, true, false) },
		"owner's lives": func(n int) { queueUp(t, conn, "{k}", "x", "o", n, false, false) },
		"owner's dead":  func(n int) { queueUp(t, conn, "{k}", "x", "o", n, true, false) },
	})
}

// Nor does it grow with the number of those that share a lock. An eviction ends all of them in
// its step. Guarantee: I11.
func TestNoScriptTakesLongerForMoreHolders(t *testing.T) {
	conn, _ := listening(t)
	atAnySize(t, conn, map[string]func(n int){
		"dead readers":            func(n int) { share(t, conn, "s", n, 0, -time.Second) },
		"live readers":            func(n int) { share(t, conn, "s", n, 0, time.Minute) },
		"dead permits":            func(n int) { share(t, conn, "p", n, 0, -time.Second) },
		"live permits":            func(n int) { share(t, conn, "p", n, 0, time.Minute) },
		"dead readers and queue":  func(n int) { share(t, conn, "s", n, n, -time.Second) },
		"a dead reader and queue": func(n int) { share(t, conn, "s", 1, n, -time.Second) },
		"evicted readers": func(n int) {
			share(t, conn, "s", n, 0, time.Minute)
			charge(t, conn, script.Evict, "{k}", "ann", "test", "0", "600000", ear)
		},
	}, script.Evict)
}

// The pages that a step of many checks reads are those of one, and a record that comes again is read once.
// Guarantee: I11.
func TestAStepOfManyChecksReadsNoMorePagesThanOne(t *testing.T) {
	conn, _ := listening(t)
	share(t, conn, "s", 1, 1000, time.Minute)
	record := conn.Do(t, "DUMP", "{k}")
	const n = 32
	var same, several []any
	var tokens []string
	for i := range n {
		key := fmt.Sprintf("{k}%d", i)
		assert.MustEqual(t, conn.Do(t, "RESTORE", key, "600000", record, "REPLACE"), "OK", "RESTORE")
		same, several, tokens = append(same, "{k}"), append(several, key), append(tokens, "7")
	}
	tokens[n-1] = "6" // nobody has it
	one := charge(t, conn, script.Check, "{k}", "6")
	for what, keys := range map[string][]any{"one lock": same, "several locks": several} {
		// Beside the pages, each check reads the record's other fields.
		all := chargeAll(t, conn, script.Check, keys, tokens...)
		assert.True(t, all.calls <= one.calls+2*n, "%d checks of %s: %v, and of one: %v", n, what, all, one)
		assert.True(t, strings.HasPrefix(all.answer, "live\n"), "of %s: %v", what, all)
		if what == "one lock" {
			want := strings.Repeat("live\n", n-1) + one.answer
			assert.Equal(t, all.answer, want, "of one lock")
		}
	}
}

// atAnySize compares the work of each script on a thousand and on four thousand of something.
func atAnySize(t *testing.T, conn *redistest.Conn, sizes map[string]func(n int), but ...*script.Script) {
	t.Helper()
	for name, lay := range sizes {
		args := steps(ownerOf(name))
		thousand, four := kept(t, conn, lay, 1000), kept(t, conn, lay, 4000)
		for _, s := range script.All() {
			args, listed := args[s]
			if !listed {
				args = []string{"h/1", "600000", ear}
			} else if args == nil || slices.Contains(but, s) {
				continue
			}
			thousand()
			few := charge(t, conn, s, "{k}", args...)
			four()
			many := charge(t, conn, s, "{k}", args...)
			// A step of a sweep may need a page more or less.
			assert.True(t, many.calls <= few.calls+2 && many.words <= few.words+few.words/3+8,
				"%s over %s: %v for 4000, and %v for 1000", s.Name, name, many, few)
		}
	}
}

// kept lays n waiters, and returns a function that makes the record again as it was.
func kept(t *testing.T, conn *redistest.Conn, lay func(n int), n int) (again func()) {
	t.Helper()
	lay(n)
	record := conn.Do(t, "DUMP", "{k}")
	return func() {
		assert.MustEqual(t, conn.Do(t, "RESTORE", "{k}", "600000", record, "REPLACE"), "OK", "RESTORE")
	}
}

func ownerOf(name string) string {
	if strings.HasPrefix(name, "owner") {
		return "o"
	}
	return ""
}

func listening(t *testing.T) (conn, listener *redistest.Conn) {
	server := redistest.Start(t)
	conn, listener = server.Dial(t), server.Dial(t)
	listener.Do(t, "SUBSCRIBE", ear+"l")
	return conn, listener
}

// pollsUntilGranted releases the record, and polls as often as a push asks for it, until the
// live waiter has the lock.
func pollsUntilGranted(t *testing.T, conn, listener *redistest.Conn) {
	t.Helper()
	args := steps("")
	got := charge(t, conn, script.Release, "{k}", args[script.Release]...)
	assert.MustTrue(t, got.answer == "released", "release: %v", got)
	for polls := 1; ; polls++ {
		if push := listener.Receive(t).([]any)[2]; !strings.HasSuffix(push.(string), " l/1 1") {
			t.Fatalf("after %d polls it is pushed %v", polls-1, push)
		}
		got := charge(t, conn, script.Poll, "{k}", args[script.Poll]...)
		if strings.HasPrefix(got.answer, "granted ") {
			return
		}
		assert.MustTrue(t, polls <= 10_000/60, "%d polls, and still %v", polls, got)
	}
}

// After ten thousand dead waiters the first live one is asked to poll at once, and goes on
// polling until it has the lock. Guarantee: I7 I11.
func TestALiveWaiterPassesTenThousandDeadOnes(t *testing.T) {
	conn, listener := listening(t)
	queueUp(t, conn, "{k}", "x", "", 10_000, true, false)
	pollsUntilGranted(t, conn, listener)
}

// After ten thousand readers that have expired, the writer that waits is asked to poll at once,
// and goes on polling until it has the lock. Guarantee: I7 I11.
func TestAWriterPassesTenThousandExpiredReaders(t *testing.T) {
	conn, listener := listening(t)
	share(t, conn, "s", 10_000, 0, -time.Second)
	pollsUntilGranted(t, conn, listener)
}

// A hold that has expired is over for its holder, also if no sweep has come to it. Guarantee: I4 I11.
func TestAHoldThatNoSweepHasReachedIsOver(t *testing.T) {
	conn, _ := listening(t)
	share(t, conn, "s", 4000, 0, -time.Second)
	again := kept(t, conn, func(int) {}, 0)
	for _, c := range []struct {
		script *script.Script
		args   []string
		want   string
	}{
		{script.Renew, []string{"600000", "30000", "d1234/1"}, "renewed -"},
		{script.Poll, []string{"d1234/1", "30000", "600000", "90000", ear}, "gone"},
		{script.Acquire, []string{"d1234/1", "30000", "630000", "s", "0", ear}, "busy 0 -"},
		{script.Acquire, []string{"d1234/1", "30000", "630000", "x", "0", ear}, "busy 0 -"},
		{script.Convert, []string{"d1234/1", "2234", "x", "30000", "600000", ear}, "gone"},
		{script.Convert, []string{"d1234/1", "2234", "s", "30000", "600000", ear}, "gone"},
		{script.Lessen, []string{"d1234/1", "1000", "0", "600000", ear}, "gone"},
		{script.RaiseFence, []string{"d1234/1", "3000", "600000"}, "gone"},
	} {
		again()
		got := charge(t, conn, c.script, "{k}", c.args...)
		assert.True(t, got.answer == c.want, "%s %v: %v, want %s", c.script.Name, c.args, got, c.want)
	}
}

// The pages of a record show each of its holders and waiters once, although others come and go
// between two pages. Guarantee: I11.
func TestThePagesOfARecordShowAllThatIsThere(t *testing.T) {
	conn, _ := listening(t)
	share(t, conn, "s", 4000, 1000, time.Minute)
	now := time.Now()
	pages := 0
	r, err := wire.ReadRecord(func(args []string) (string, error) {
		words := []any{"EVAL", script.Inspect.Text, 1, "{k}"}
		for _, arg := range args {
			words = append(words, arg)
		}
		answer := conn.Do(t, words...).(string)
		// The hash grows and shrinks meanwhile.
		for i := range 200 {
			conn.Send(t, "HSET", "{k}", fmt.Sprintf("h:new%d/%d", pages, i),
				fmt.Sprintf("s %d 1 %d 1", now.Add(time.Minute).UnixMilli(), 1000*pages+i+1)) // a token is never 0
			conn.Send(t, "HDEL", "{k}", fmt.Sprintf("h:new%d/%d", pages-2, i))
		}
		for range 400 {
			conn.Receive(t)
		}
		pages++
		return answer, nil
	}, nil)
	assert.Must(t, err)
	seen := make(map[string]int)
	for _, h := range r.Holders {
		seen[h.Attempt]++
	}
	for _, w := range r.Waiters {
		seen[w.Attempt]++
	}
	lasting := []string{"h/1", "l/1"}
	for i := range 4000 {
		lasting = append(lasting, fmt.Sprintf("d%d/1", i+1))
	}
	for i := range 1000 {
		lasting = append(lasting, fmt.Sprintf("w%d/1", i+1))
	}
	for _, attempt := range lasting {
		assert.MustTrue(t, seen[attempt] == 1, "%s is shown %d times on %d pages", attempt, seen[attempt], pages)
	}
	if len(r.Waiters) != 1001 || r.Waiters[1000].Attempt != "l/1" || r.Waiters[1000].Place != 1001 || pages < 5000/400 {
		t.Errorf("%d waiters on %d pages; the last is %+v", len(r.Waiters), pages, r.Waiters[len(r.Waiters)-1])
	}
}

// sweep asks until no sweep is under way. It returns the earliest expiry that the record then
// says, counted from now.
func sweep(t *testing.T, conn *redistest.Conn) (soonest time.Duration) {
	t.Helper()
	for range 4000 / 200 {
		charge(t, conn, script.AwaitFree, "{k}", "x", "0", "600000", ear)
		sum := strings.Fields(conn.Do(t, "HGET", "{k}", "shares").(string))
		if len(sum) == 3 {
			at, err := strconv.ParseInt(sum[2], 10, 64)
			assert.Must(t, err)
			return time.Until(time.UnixMilli(at))
		}
	}
	t.Fatal("the sweep does not end")
	return 0
}

// A sweep over live holds ends, and finds when the first of them expires. Guarantee: I7.
func TestASweepOverLiveHoldsEnds(t *testing.T) {
	conn, _ := listening(t)
	share(t, conn, "s", 4000, 0, time.Hour)
	if soonest := sweep(t, conn); soonest <= 0 || soonest > time.Minute {
		t.Errorf("the first hold expires in %v, the record says in %v", time.Minute, soonest)
	}
}

// A hold that is granted behind a sweep ends at its time. Guarantee: I7.
func TestASweepDoesNotForgetNewHolds(t *testing.T) {
	conn, _ := listening(t)
	share(t, conn, "s", 4000, 0, -time.Second)
	conn.Do(t, "HDEL", "{k}", "queue", "#1", "w:l/1")
	charge(t, conn, script.AwaitFree, "{k}", "x", "0", "600000", ear)
	// A field comes back to the place where it was, and the sweep is past that.
	attempt := ""
	for i := 1; attempt == "" && i <= 4000; i++ {
		if id := fmt.Sprintf("d%d/1", i); conn.Do(t, "HEXISTS", "{k}", "h:"+id) == int64(0) {
			attempt = id
		}
	}
	got := charge(t, conn, script.Acquire, "{k}", attempt, "20000", "620000", "s", "0", ear)
	assert.MustTrue(t, strings.HasPrefix(got.answer, "granted "), "%q: %v", attempt, got)
	if soonest := sweep(t, conn); soonest <= 0 || soonest > 20*time.Second {
		t.Errorf("the first hold expires in %v, the record says in %v", 20*time.Second, soonest)
	}
}

// A cursor means nothing to another server. So after a failover a sweep begins again, and
// misses no hold. Guarantee: I7.
func TestASweepBeginsAgainOnAnotherServer(t *testing.T) {
	conn, _ := listening(t)
	other, _ := listening(t)
	share(t, conn, "s", 4000, 0, -time.Second)
	poll := steps("")[script.Poll]
	for range 6 {
		charge(t, conn, script.Poll, "{k}", poll...)
	}
	assert.MustEqual(t, other.Do(t, "RESTORE", "{k}", "600000", conn.Do(t, "DUMP", "{k}")), "OK", "RESTORE")
	for range 4000 / 200 {
		charge(t, other, script.Poll, "{k}", poll...)
	}
	// The fields lock, birth, limit, lost, shares and queue; the reader h/1; the waiter's two.
	assert.Equal[any](t, other.Do(t, "HLEN", "{k}"), int64(9), "fields are left")
}

package script_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/script"
)

// counted wraps a script. It counts the calls, their arguments, and the elements of their
// answers.
const counted = `local calls, words = 0, 0
local redis = (function(real)
	local function way(f)
		return function(...)
			local got = f(...)
			calls, words = calls + 1, words + select('#', ...)
			if type(got) == 'table' then words = words + #got end
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
	return fmt.Sprintf("%d calls and %d words (%s)", c.calls, c.words, c.answer)
}

func charge(t *testing.T, conn *redistest.Conn, s *script.Script, key string, args ...string) cost {
	t.Helper()
	keys := []any{key}
	if s == script.RaiseFence {
		keys = append(keys, "bounded:mark")
	}
	text := s.Declaration() + strings.Replace(counted, "BODY\n", s.Body(), 1)
	words := append([]any{"EVAL", text, len(keys)}, keys...)
	for _, arg := range args {
		words = append(words, arg)
	}
	got := conn.Do(t, words...)
	reply, ok := got.([]any)
	if !ok {
		t.Fatalf("%s answers %v", s.Name, got)
	}
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
		script.Inspect:        nil, // it shows the whole queue
		script.CheckACL:       nil, // no lock's record, from here on
		script.RegisterClient: nil,
		script.ReadClient:     nil,
		script.MarkServer:     nil,
	}
}

// The work of one script does not grow with the queue: it is the same with four thousand
// waiters as with one thousand. Guarantee: I11.
func TestNoScriptTakesLongerForALongerQueue(t *testing.T) {
	conn, _ := listening(t)
	for name, lay := range map[string]func(n int){
		"dead waiters":  func(n int) { queueUp(t, conn, "{k}", "x", "", n, true, false) },
		"holes":         func(n int) { queueUp(t, conn, "{k}", "x", "", n, false, true) },
		"live writers":  func(n int) { queueUp(t, conn, "{k}", "x", "", n, false, false) },
		"live readers":  func(n int) { queueUp(t, conn, "{k}", "s", "", n, false, false) },
		"live permits":  func(n int) { queueUp(t, conn, "{k}", "p", "", n, false, false) },
		"dead readers":  func(n int) { queueUp(t, conn, "{k}", "s", "", n, true, false) },
		"owner's lives": func(n int) { queueUp(t, conn, "{k}", "x", "o", n, false, false) },
		"owner's dead":  func(n int) { queueUp(t, conn, "{k}", "x", "o", n, true, false) },
	} {
		args := steps(ownerOf(name))
		thousand, four := kept(t, conn, lay, 1000), kept(t, conn, lay, 4000)
		for _, s := range script.All() {
			args, listed := args[s]
			if !listed {
				args = []string{"h/1", "600000", ear}
			} else if args == nil {
				continue
			}
			thousand()
			few := charge(t, conn, s, "{k}", args...)
			four()
			many := charge(t, conn, s, "{k}", args...)
			if many.calls > few.calls+2 || many.words > few.words+8 {
				t.Errorf("%s over %s: %v for 4000, and %v for 1000", s.Name, name, many, few)
			}
		}
	}
}

// kept lays n waiters, and returns a function that makes the record again as it was.
func kept(t *testing.T, conn *redistest.Conn, lay func(n int), n int) (again func()) {
	t.Helper()
	lay(n)
	record := conn.Do(t, "DUMP", "{k}")
	return func() {
		if reply := conn.Do(t, "RESTORE", "{k}", "600000", record, "REPLACE"); reply != "OK" {
			t.Fatalf("RESTORE: %v", reply)
		}
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

// After ten thousand dead waiters the first live one is asked to poll at once, and goes on
// polling until it has the lock. Guarantee: I7 I11.
func TestALiveWaiterPassesTenThousandDeadOnes(t *testing.T) {
	conn, listener := listening(t)
	queueUp(t, conn, "{k}", "x", "", 10_000, true, false)
	args := steps("")
	if got := charge(t, conn, script.Release, "{k}", args[script.Release]...); got.answer != "released" {
		t.Fatalf("release: %v", got)
	}
	for polls := 1; ; polls++ {
		if push := listener.Receive(t).([]any)[2]; !strings.HasSuffix(push.(string), " l/1 1") {
			t.Fatalf("after %d polls it is pushed %v", polls-1, push)
		}
		got := charge(t, conn, script.Poll, "{k}", args[script.Poll]...)
		if strings.HasPrefix(got.answer, "granted ") {
			return
		}
		if polls > 10_000/200 {
			t.Fatalf("%d polls, and still %v", polls, got)
		}
	}
}

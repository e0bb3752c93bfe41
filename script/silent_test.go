package script_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/memstore"
	"github.com/holdfast-go/holdfast/script"
	"github.com/holdfast-go/holdfast/store"
)

type unmarking struct {
	name   string
	silent string // clients
	over   bool   // h/1 has got the lock by a push, has not confirmed it, and has expired: c2 is asked who is there
	action *script.Script
	args   []string
}

// unmarked are the requests after which a client is no longer silent. c2/1 and c2/2 wait at places 69 and 70, and
// h/1 holds the lock.
var unmarked = []unmarking{
	{"a renewal", "c2", false, script.Renew, []string{"60000", "30000", "c2/9"}},
	{"an acquire", "c2", false, script.Acquire, []string{"c2/3", "30000", "90000", "x", "0", ear}},
	{"a poll of a later waiter", "c2", false, script.Poll, []string{"c2/2", "30000", "60000", "90000", ear}},
	{"a poll between other marks", "f1 c2 f2", false, script.Poll, []string{"c2/2", "30000", "60000", "90000", ear}},
	{"a renewal between other marks", "f1 c2 f2", false, script.Renew, []string{"60000", "30000", "c2/9"}},
	{"a mark that is one too many", "c2 f2 f3 f4 f5 f6 f7 f8 f9 f10 f11 f12 f13 f14 f15 f16", true, script.Acquire,
		[]string{"n/1", "30000", "90000", "x", "0", ear}},
}

// While a client is silent, steps skip its waiters and go on behind them. If it is not silent any more, the next step
// comes to all of its waiters again, and not only to one that asks. Guarantee: I6 I7.
func TestWhoWasSilentHasItsTurnAgain(t *testing.T) {
	server, memory := redistest.Start(t), memstore.New()
	conn, listener := server.Dial(t), server.Dial(t)
	listener.Do(t, "SUBSCRIBE", ear+"c2")
	_, err := memory.Listen(t.Context(), ear+"c2", store.Listener{Message: func(string) {}})
	assert.Must(t, err)
	for i, u := range unmarked {
		key, record := fmt.Sprintf("{%d}", i), u.record(time.Now().UnixMicro())
		plantBoth(t, memory, conn, key, record)
		release := []string{"h/1", record["birth"], "60000", ear}
		run := func(s *script.Script, args []string) {
			_, err := memory.Run(t.Context(), s, []string{key}, args)
			assert.Must(t, err)
			words := []any{"EVAL", s.Text, 1, key}
			for _, arg := range args {
				words = append(words, arg)
			}
			conn.Do(t, words...)
		}
		run(u.action, u.args)
		run(script.Release, release)
		for who, lock := range map[string]any{
			"memstore": memory.Dump(key)["lock"], "the server": conn.Do(t, "HGET", key, "lock"),
		} {
			want := " c2/1 +"
			if u.over {
				want = " 0 - +"
			}
			assert.True(t, strings.HasSuffix(fmt.Sprint(lock), want),
				"%s: after %s the first waiter does not get the lock: %v", who, u.name, lock)
		}
	}
}

// record is where it begins: the clients are silent, and steps go on behind their waiters.
func (u *unmarking) record(micros int64) map[string]string {
	far := micros/1000 + 600_000
	token, lease := micros, "600000"
	if u.over {
		token, lease = micros-5_000_000, "01000"
	}
	return map[string]string{
		"lock": fmt.Sprintf("%d %s h/1 +", token, lease), "birth": fmt.Sprint(token),
		"queue": "3 1 70 >71 " + u.silent,
		"#1":    "d/1", "w:d/1": fmt.Sprintf("1 x 1 30000 %d 1", far),
		"#69": "c2/1", "w:c2/1": fmt.Sprintf("69 x 1 30000 %d 1", far),
		"#70": "c2/2", "w:c2/2": fmt.Sprintf("70 x 1 30000 %d 1", far),
	}
}

// plantBoth makes the record in memory and on the server.
func plantBoth(t *testing.T, memory *memstore.Store, conn *redistest.Conn, key string, record map[string]string) {
	t.Helper()
	memory.PlantRecord(key, record)
	words := []any{"HSET", key}
	for field, value := range record {
		words = append(words, field, value)
	}
	conn.Do(t, words...)
	conn.Do(t, "PEXPIRE", key, 600_000)
}

// A step walks over so many places of the queue, and no more. If it ends before a waiter that it could tell, it asks
// one of the last to poll, so that somebody goes on. Guarantee: I7.
func TestAWalkThatEndsWithinTheQueueTellsAWaiter(t *testing.T) {
	server, memory := redistest.Start(t), memstore.New()
	conn, listener := server.Dial(t), server.Dial(t)
	listener.Do(t, "SUBSCRIBE", ear+"c2")
	told := make(chan string, 8)
	_, err := memory.Listen(t.Context(), ear+"c2", store.Listener{Message: func(push string) { told <- push }})
	assert.Must(t, err)
	micros := time.Now().UnixMicro()
	far := micros/1000 + 600_000
	record := map[string]string{
		"lock": fmt.Sprintf("%d 600000 h/1 +", micros), "birth": fmt.Sprint(micros), "queue": "2 1 400",
		"#1": "d/1", "w:d/1": fmt.Sprintf("1 x 1 30000 %d 1", far), // nobody listens for it
		"#400": "c2/1", "w:c2/1": fmt.Sprintf("400 x 1 30000 %d 1", far),
	}
	plantBoth(t, memory, conn, "{far}", record)
	_, err = memory.Run(t.Context(), script.Release, []string{"{far}"}, []string{"h/1", record["birth"], "60000", ear})
	assert.Must(t, err)
	conn.Do(t, "EVAL", script.Release.Text, 1, "{far}", "h/1", record["birth"], "60000", ear)
	assert.Equal(t, redistest.Next(t, "a push of memstore", told), "kept c2/1 1", "the push of memstore")
	assert.Equal[any](t, listener.Receive(t).([]any)[2], "kept c2/1 1", "the push of the server")
}

// A queue remembers sixteen answers. With one more, the last waiter that has answered and those behind it are as if
// they had not been asked, so no waiter that has answered is passed over. Guarantee: I6 I11.
func TestAQueueForgetsTheLastOfTooManyAnswers(t *testing.T) {
	server, memory := redistest.Start(t), memstore.New()
	conn := server.Dial(t)
	micros := time.Now().UnixMicro()
	until, places := micros/1000, ""
	record := map[string]string{"lock": fmt.Sprintf("%d 600000 h/1 +", micros), "birth": fmt.Sprint(micros)}
	for place := 1; place <= 20; place++ {
		client := fmt.Sprintf("c%d/1", place)
		record[fmt.Sprintf("#%d", place)] = client
		record["w:"+client] = fmt.Sprintf("%d x 1 30000 %d 1", place, until+600_000)
		if 1 < place && place < 17 {
			places += fmt.Sprintf(":%d", place)
		}
	}
	record["queue"] = fmt.Sprintf("20 1 20 ?%d:20%s:17", until, places)
	plantBoth(t, memory, conn, "{many}", record)
	for _, attempt := range []string{"c2/1", "c1/1", "c17/1", "c20/1"} {
		args := []string{attempt, "30000", "60000", "90000", ear}
		_, err := memory.Run(t.Context(), script.Poll, []string{"{many}"}, args)
		assert.Must(t, err)
		conn.Do(t, "EVAL", script.Poll.Text, 1, "{many}", args[0], args[1], args[2], args[3], args[4])
	}
	want := fmt.Sprintf("20 1 20 ?%d:17%s:1", until, places)
	assert.Equal(t, memory.Dump("{many}")["queue"], want, "the queue of memstore")
	assert.Equal[any](t, conn.Do(t, "HGET", "{many}", "queue"), want, "the queue of the server")
}

package oracle

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/memstore"
	"github.com/holdfast-go/holdfast/script"
	"github.com/holdfast-go/holdfast/store"
	"pgregory.net/rapid"
)

const (
	key      = "oracle:{lock}"
	base     = "oracle:push:"
	clockKey = "oracle:clock"
	syncMark = "oracle:sync"
)

// server is the real side, shared by all sequences.
type server struct {
	t     *testing.T
	conn  *redistest.Conn
	ear   *redistest.Conn // in subscriber mode
	sha   map[string]string
	marks int
	owed  int // answers that nobody has read yet
}

func newServer(t *testing.T) *server {
	s := redistest.Start(t)
	srv := &server{t: t, conn: s.Dial(t), ear: s.Dial(t), sha: map[string]string{}}
	srv.ear.Do(t, "SUBSCRIBE", syncMark)
	for _, action := range script.All() {
		text := strings.ReplaceAll(action.Text, "call('TIME')", "call('LRANGE', '"+clockKey+"', 0, 1)")
		srv.sha[action.Name] = srv.conn.Do(t, "SCRIPT", "LOAD", text).(string)
	}
	return srv
}

// world is both sides, and the model, during one sequence.
type world struct {
	*server
	rt        *rapid.T
	spec      *memstore.Store
	micros    int64     // the clock of both sides
	lifeSet   time.Time // when the server's key last got the life of the other
	listening map[string]func()

	mu     sync.Mutex
	heard  []string // by the specification's side
	synced chan struct{}
}

func newWorld(srv *server, rt *rapid.T) *world {
	w := &world{
		server:    srv,
		rt:        rt,
		spec:      memstore.New(),
		micros:    1_800_000_000_000_000,
		listening: map[string]func(){},
		synced:    make(chan struct{}),
	}
	w.spec.SetClock(func() time.Time { return time.UnixMicro(w.micros) })
	w.conn.Send(w.t, "DEL", key)
	w.owed++
	return w
}

func (w *world) close() {
	for client := range maps.Clone(w.listening) {
		w.deafen(client)
	}
}

func (w *world) now() int64 { return w.micros / 1000 }

// news is where those listen who watch for the lock to become free.
const news = "oracle:watch=lock"

// channel is where a client listens.
func channel(client string) string {
	if client == news {
		return news
	}
	return base + client
}

func (w *world) listen(client string) {
	if w.listening[client] != nil {
		return
	}
	w.ear.Do(w.t, "SUBSCRIBE", channel(client))
	stop, err := w.spec.Listen(context.Background(), channel(client), store.Listener{
		Message: func(payload string) {
			if payload == syncMark {
				w.synced <- struct{}{}
				return
			}
			w.mu.Lock()
			defer w.mu.Unlock()
			w.heard = append(w.heard, client+" "+payload)
		},
	})
	if err != nil {
		w.rt.Fatal(err)
	}
	w.listening[client] = stop
}

func (w *world) deafen(client string) {
	if stop := w.listening[client]; stop != nil {
		stop()
		delete(w.listening, client)
		w.ear.Do(w.t, "UNSUBSCRIBE", channel(client))
	}
}

// outcome is all that can be seen of a step.
type outcome struct {
	answer string
	pushes []string // CLIENT PAYLOAD, by client
	fields map[string]string
	life   time.Duration
}

// run takes one step on both sides and fails unless they agree.
func (w *world) run(action *script.Script, keys, args []string) outcome {
	w.rt.Helper()
	w.rt.Logf("%d: %s %s", w.micros, action.Name, strings.Join(args, " "))
	spec := w.runSpec(action, keys, args)
	actual := w.runReal(action, keys, args)
	w.rt.Logf("  %s %q %s", spec.answer, spec.pushes, show(spec.fields))
	if life := spec.life; life > 0 || actual.life > 0 {
		late := time.Since(w.lifeSet) + 100*time.Millisecond
		if actual.life > life+100*time.Millisecond || actual.life < life-late {
			w.rt.Fatalf("the key lives for %v, the specification says %v", actual.life, life)
		}
	}
	said, must := actual.answer, spec.answer
	if action == script.RaiseFence {
		said, must = withoutRun(said), withoutRun(must)
	}
	if action == script.Inspect {
		said, must = withoutLife(said), withoutLife(must)
		if strings.Contains(said+must, "\npage ") {
			said, must = w.whole(w.runReal, keys, args), w.whole(w.runSpec, keys, args)
		}
	}
	if said != must {
		w.rt.Fatalf("the script answers %q, the specification %q", said, must)
	}
	if !maps.Equal(spec.fields, actual.fields) {
		both := func(name, value string) bool { return spec.fields[name] == value && actual.fields[name] == value }
		only := func(fields map[string]string) map[string]string {
			some := maps.Clone(fields)
			maps.DeleteFunc(some, both)
			return some
		}
		w.rt.Fatalf("the script leaves\n%s\nthe specification\n%s", show(only(actual.fields)), show(only(spec.fields)))
	}
	if !slices.Equal(spec.pushes, actual.pushes) {
		w.rt.Fatalf("the script pushes %q, the specification %q", actual.pushes, spec.pushes)
	}
	w.setLife()
	return spec
}

// whole reads all pages of a record. The two sides come to the shares and the waiters in another
// order, so only the whole can be compared.
func (w *world) whole(run func(*script.Script, []string, []string) outcome, keys, args []string) string {
	r, err := wire.ReadRecord(func(args []string) (string, error) {
		return run(script.Inspect, keys, args).answer, nil
	}, nil, args...)
	if err != nil {
		w.rt.Fatal(err)
	}
	text, err := json.Marshal(r)
	if err != nil {
		w.rt.Fatal(err)
	}
	return string(text)
}

func (w *world) runSpec(action *script.Script, keys, args []string) (o outcome) {
	answer, err := w.spec.Run(context.Background(), action, keys, args)
	if refused, ok := errors.AsType[*holdfast.ServerError](err); ok {
		answer = refused.Code
	} else if err != nil {
		w.rt.Fatal(err)
	}
	for client := range w.listening {
		w.spec.Publish(channel(client), syncMark)
		<-w.synced
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	o = outcome{answer: answer, pushes: byClient(w.heard), fields: w.spec.Dump(key), life: w.spec.TTL(key)}
	w.heard = nil
	return o
}

// runReal sends all of a step at once.
func (w *world) runReal(action *script.Script, keys, args []string) (o outcome) {
	w.marks++
	mark := strconv.Itoa(w.marks)
	call := []any{"EVALSHA", w.sha[action.Name], len(keys)}
	for _, word := range slices.Concat(keys, args) {
		call = append(call, word)
	}
	w.conn.Send(w.t, "DEL", clockKey)
	w.conn.Send(w.t, "RPUSH", clockKey, w.micros/1e6, w.micros%1e6)
	w.conn.Send(w.t, call...)
	w.conn.Send(w.t, "PUBLISH", syncMark, mark)
	w.conn.Send(w.t, "HGETALL", key)
	w.conn.Send(w.t, "PTTL", key)
	for range w.owed + 2 {
		w.conn.Receive(w.t)
	}
	w.owed = 0
	switch reply := w.conn.Receive(w.t).(type) {
	case string:
		o.answer = reply
	case redistest.Error:
		o.answer, _, _ = strings.Cut(string(reply), " ")
		w.rt.Logf("  %s", reply)
	default:
		w.rt.Fatalf("the script answers %v", reply)
	}
	w.conn.Receive(w.t)
	list := w.conn.Receive(w.t).([]any)
	for i := 0; i < len(list); i += 2 {
		if o.fields == nil {
			o.fields = map[string]string{}
		}
		o.fields[list[i].(string)] = list[i+1].(string)
	}
	life := w.conn.Receive(w.t).(int64)
	o.life = time.Duration(life) * time.Millisecond
	o.pushes = w.heardReal(mark)
	return o
}

func (w *world) heardReal(mark string) (pushes []string) {
	for {
		m := w.ear.Receive(w.t).([]any)
		channel, payload := m[1].(string), m[2].(string)
		if channel == syncMark {
			if payload == mark {
				return byClient(pushes)
			}
			continue
		}
		pushes = append(pushes, strings.TrimPrefix(channel, base)+" "+payload)
	}
}

// nearEnd is how close to its end a key is not let: the server's clock goes on
// between two steps, the specification's does not.
const nearEnd = 5 * time.Second

// setLife gives the server's key the life that the specification's has, and
// ends both when little is left of it.
func (w *world) setLife() {
	life := w.spec.TTL(key)
	if 0 <= life && life < nearEnd {
		w.micros += (life + time.Millisecond).Microseconds()
		life = w.spec.TTL(key)
	}
	w.lifeSet = time.Now()
	if life < 0 {
		w.conn.Send(w.t, "DEL", key)
	} else {
		w.conn.Send(w.t, "PEXPIRE", key, life.Milliseconds())
	}
	w.owed++
}

// advance moves the clock of both sides.
func (w *world) advance(d time.Duration) {
	w.rt.Logf("%d: advance %v", w.micros, d)
	w.micros += d.Microseconds()
	w.setLife()
}

// withoutLife blanks the record's life in the first line of inspect.
func withoutLife(answer string) string {
	words := strings.SplitN(answer, " ", 7)
	if len(words) == 7 {
		words[4] = "~"
	}
	return strings.Join(words, " ")
}

// withoutRun leaves the server's run out of the answer of raise_fence.
func withoutRun(answer string) string {
	words := strings.Fields(answer)
	return strings.Join(words[:min(len(words), 3)], " ")
}

// byClient keeps each client's order, which is all that a client can see.
func byClient(pushes []string) []string {
	client := func(s string) string { c, _, _ := strings.Cut(s, " "); return c }
	slices.SortStableFunc(pushes, func(a, b string) int { return strings.Compare(client(a), client(b)) })
	return pushes
}

func show(fields map[string]string) string {
	var lines []string
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		lines = append(lines, fmt.Sprintf("%s=%q", name, fields[name]))
	}
	return strings.Join(lines, " ")
}

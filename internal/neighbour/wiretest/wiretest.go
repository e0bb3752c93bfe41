// Package wiretest tests the scripts of a neighbour's wire on a real server: what a second copy of a request does,
// at once and late.
package wiretest

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/neighbour"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/script"
	"github.com/holdfast-go/holdfast/store"
)

// Wire is a kind of lock under test.
type Wire struct {
	Name string
	Open func(s store.Store) neighbour.Wire
	Mode neighbour.Mode
	// Harm says what copies do although they should not, by "operation, when": "acquire, after a release". There
	// is nothing else, and all of it happens. A script with a harm must not be repeatable.
	Harm map[string]string
}

// attempt returns an acquisition by a client. Its times differ from all others by minutes, so that what a test does
// meanwhile does not matter.
func (w Wire) attempt(client string, number int, ttl time.Duration) neighbour.Attempt {
	id := base64.RawURLEncoding.EncodeToString([]byte(strings.Repeat(client, 16)))
	return neighbour.Attempt{
		Name: "order", ID: id + "/" + strconv.Itoa(number), Mode: w.Mode, Count: 1, Limit: 1,
		TTL: ttl, Record: 10 * time.Minute,
	}
}

// Scripts returns the variables of a package's directory that are scripts of a wire.
func Scripts(t *testing.T, dir string, made ...string) (names []string) {
	t.Helper()
	files, err := os.ReadDir(dir)
	assert.Must(t, err)
	for _, file := range files {
		if !strings.HasSuffix(file.Name(), ".go") || strings.HasSuffix(file.Name(), "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), dir+"/"+file.Name(), nil, 0)
		assert.Must(t, err)
		ast.Inspect(parsed, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok || len(spec.Values) != 1 {
				return true
			}
			if call, ok := spec.Values[0].(*ast.CallExpr); ok && slices.Contains(made, called(call)) {
				names = append(names, spec.Names[0].Name)
			}
			return true
		})
	}
	return names
}

// called names the function of a call.
func called(call *ast.CallExpr) string {
	switch f := call.Fun.(type) {
	case *ast.Ident:
		return f.Name
	case *ast.SelectorExpr:
		return f.Sel.Name
	}
	return ""
}

// TwiceAndLate sends a copy of each request of the wires at once, after a release, and after a newer holder. known has
// the scripts of the package by the names of their variables, and declared those names as its source has them.
//
// A script that says that it may be repeated must leave the record as it was, and be answered as before. No copy of
// any other may take the lock for anybody, or take it from anybody, or end anybody's hold sooner, but for what
// [Wire.Harm] says. If the request itself is late, the client goes on to cancel: then nobody may have the lock.
func TwiceAndLate(t *testing.T, wires []Wire, known map[string]*script.Script, declared []string) {
	allKnown(t, known, declared)
	server := redistest.Start(t, redistest.AllowAll())
	sent := make(map[*script.Script]bool)
	for _, w := range wires {
		t.Run(w.Name, func(t *testing.T) {
			harmful := make(map[string]bool)
			for _, op := range operations {
				for _, at := range moments {
					what := op.name + ", " + at.name
					harm := play(t, server, w, op, at, sent)
					harmful[what] = harm != ""
					assert.Equal(t, harm, w.Harm[what], "a copy of %s", what)
				}
			}
			for what := range w.Harm {
				assert.True(t, harmful[what], "nothing does what the table says of %s", what)
			}
		})
	}
	for name, s := range known {
		assert.True(t, sent[s], "no operation sends %s", name)
	}
}

func allKnown(t *testing.T, known map[string]*script.Script, declared []string) {
	t.Helper()
	for _, name := range declared {
		assert.True(t, known[name] != nil, "no test knows the script %s", name)
	}
	assert.Equal(t, len(declared), len(known), "scripts")
}

// Copy is a call of a package whose scripts are no lock, and what has happened when a copy of its requests arrives.
type Copy struct {
	Name                string
	Before, Call, Later func(ctx context.Context, s store.Store) error // Before and Later may be nil
	// Harm is what the copy changes although it should not. If it is empty, the copy changes nothing, and at once
	// it is answered as the first request. A script with a harm must not be repeatable.
	Harm bool
}

// CopiesOfCalls is [TwiceAndLate] for scripts that are no lock.
func CopiesOfCalls(t *testing.T, copies []Copy, known map[string]*script.Script, declared []string) {
	allKnown(t, known, declared)
	server := redistest.Start(t, redistest.AllowAll())
	sent := make(map[*script.Script]bool)
	for _, c := range copies {
		t.Run(c.Name, func(t *testing.T) {
			r := &recorder{t: t, conn: server.Dial(t)}
			defer r.conn.Close()
			r.conn.Do(t, "FLUSHALL")
			if c.Before != nil {
				assert.Must(t, c.Before(t.Context(), r))
			}
			r.calls = nil
			assert.Must(t, c.Call(t.Context(), r))
			calls, harm := r.calls, false
			if c.Later != nil {
				assert.Must(t, c.Later(t.Context(), r))
			}
			for _, one := range calls {
				sent[one.action] = true
				before := r.dump()
				answer, err := r.Run(t.Context(), one.action, one.keys, one.args)
				assert.Must(t, err)
				changes := !reflect.DeepEqual(before, r.dump())
				harm = harm || changes || c.Later == nil && answer != one.answer
				assert.False(t, changes && one.action.Repeats, "a repeatable script changes the server again")
			}
			assert.Equal(t, harm, c.Harm, "a copy does harm")
		})
	}
	for name, s := range known {
		assert.True(t, sent[s], "no call sends %s", name)
	}
}

// operation is a request of the library, with what comes before it.
type operation struct {
	name string
	// before names who has acquired the lock then: the asking one, or another.
	before []string
	do     request
}

type request func(ctx context.Context, w neighbour.Wire, s store.Store, a neighbour.Attempt) error

var operations = []operation{
	{"acquire", nil, acquire},
	{"acquire a held lock", []string{"other"}, acquire},
	{"renew", []string{"own"}, of(func(ctx context.Context, w neighbour.Wire, a neighbour.Attempt) error {
		a.TTL *= 2
		return assert.Err(w.Renew(ctx, []neighbour.Attempt{a}))
	})},
	{"release", []string{"own"}, of(func(ctx context.Context, w neighbour.Wire, a neighbour.Attempt) error {
		return assert.Err(w.Release(ctx, a))
	})},
	{"cancel", []string{"own"}, cancel},
	{"cancel a wait", []string{"other", "own"}, cancel},
	{"keep", []string{"own"}, of(func(ctx context.Context, w neighbour.Wire, a neighbour.Attempt) error {
		return assert.Err(w.Keep(ctx, a, a.TTL/2))
	})},
	{"inspect", []string{"own"}, of(func(ctx context.Context, w neighbour.Wire, a neighbour.Attempt) error {
		return assert.Err(w.Inspect(ctx, a.Name))
	})},
	{"evict", []string{"own"}, of(func(ctx context.Context, w neighbour.Wire, a neighbour.Attempt) error {
		return assert.Err(w.Evict(ctx, a.Name, 0))
	})},
	{"evict by its token", []string{"own"}, of(func(ctx context.Context, w neighbour.Wire, a neighbour.Attempt) error {
		return assert.Err(w.Evict(ctx, a.Name, 1)) // of the first grant, where grants have tokens
	})},
	{"check permissions", nil, func(ctx context.Context, w neighbour.Wire, s store.Store, _ neighbour.Attempt) error {
		return assert.Err(neighbour.New(s, w).Run(ctx, script.CheckACL, []string{"holdfast:{order}"}, nil))
	}},
}

// of is a request that needs nothing but the wire.
func of(do func(ctx context.Context, w neighbour.Wire, a neighbour.Attempt) error) request {
	return func(ctx context.Context, w neighbour.Wire, _ store.Store, a neighbour.Attempt) error {
		return do(ctx, w, a)
	}
}

var acquire = of(func(ctx context.Context, w neighbour.Wire, a neighbour.Attempt) error {
	return assert.Err(w.Acquire(ctx, a, true))
})

var cancel = of(func(ctx context.Context, w neighbour.Wire, a neighbour.Attempt) error {
	return assert.Err(w.Cancel(ctx, a))
})

// moment is when a copy arrives.
type moment struct {
	name         string
	over, newest bool // the holders have released the lock; then another client has acquired it
	instead      bool // it is no copy: the request itself is late, and its client has cancelled the attempt
}

var moments = []moment{
	{name: "at once"},
	{name: "after a release", over: true},
	{name: "after a newer holder", over: true, newest: true},
	{name: "instead of the first, after its cancel", over: true, instead: true},
	{name: "instead of the first, after a newer holder", over: true, newest: true, instead: true},
}

// play makes a request and has a copy of it arrive at a moment. It returns the harm that the copy has done.
func play(
	t *testing.T, server *redistest.Server, w Wire, op operation, at moment, sent map[*script.Script]bool,
) string {
	t.Helper()
	r := &recorder{t: t, conn: server.Dial(t)}
	defer r.conn.Close()
	r.conn.Do(t, "FLUSHALL")
	theirs := w.Open(r)
	own, other := w.attempt("a", 1, 10*time.Minute), w.attempt("b", 2, 60*time.Minute)
	for _, name := range op.before {
		a := map[string]neighbour.Attempt{"own": own, "other": other}[name]
		assert.Must(t, assert.Err(theirs.Acquire(t.Context(), a, true)))
	}
	r.calls, r.lost = nil, at.instead
	err := op.do(t.Context(), theirs, r, own)
	r.lost = false
	assert.True(t, err == nil || at.instead && errors.Is(err, errLost), "%s: %v", op.name, err)
	calls := r.calls
	own.Late = at.instead && strings.HasPrefix(op.name, "acquire")
	if at.over {
		assert.Must(t, assert.Err(theirs.Release(t.Context(), other)))
		assert.Must(t, assert.Err(theirs.Cancel(t.Context(), own)))
	}
	if at.newest {
		got, err := theirs.Acquire(t.Context(), w.attempt("b", 3, 90*time.Minute), true)
		assert.MustTrue(t, err == nil && got.Granted, "a newer holder: %+v, %v", got, err)
	}
	var harm []string
	for _, c := range calls {
		sent[c.action] = true
		before, holders := r.dump(), r.holders(theirs)
		answer, err := r.Run(t.Context(), c.action, c.keys, c.args)
		assert.Must(t, err)
		after := r.dump()
		if own.Late { // its client goes on to cancel
			assert.Must(t, assert.Err(theirs.Cancel(t.Context(), own)))
		}
		harm = append(harm, difference(holders, r.holders(theirs))...)
		was, is := times.ReplaceAllStringFunc(c.answer, inMinutes), times.ReplaceAllStringFunc(answer, inMinutes)
		if !at.over && was != is {
			harm = append(harm, fmt.Sprintf("answers %q, not %q", is, was))
		}
		if c.action.Repeats {
			assert.True(t, len(harm) == 0 && reflect.DeepEqual(before, after),
				"%s, %s: a copy of %s: %v\n%v to\n%v", op.name, at.name, c.action.Name, harm, before, after)
		}
	}
	return strings.Join(harm, ", ")
}

// times are what an answer says in ms.
var times = regexp.MustCompile(`[0-9]{5,}`)

// inMinutes writes a remaining time in minutes. Longer numbers are readings of a clock.
func inMinutes(ms string) string {
	left, _ := strconv.ParseInt(ms, 10, 64)
	if len(ms) > 10 {
		return "now"
	}
	return (time.Duration(left) * time.Millisecond).Round(time.Minute).String()
}

// difference says how the holders have changed for the worse.
func difference(before, after map[string]time.Duration) (harm []string) {
	for _, id := range slices.Sorted(maps.Keys(after)) {
		if _, was := before[id]; !was {
			harm = append(harm, "takes it")
		}
	}
	for id, left := range before {
		switch now, is := after[id]; {
		case !is:
			harm = append(harm, "frees it")
		case now < left:
			harm = append(harm, "shortens a lease")
		}
	}
	return harm
}

// errLost is the end of a request that is under way.
var errLost = errors.New("no answer")

type call struct {
	action     *script.Script
	keys, args []string
	answer     string
}

// recorder is a store that notes what is sent. Its messages are sharded, as in a Cluster.
type recorder struct {
	t     *testing.T
	conn  *redistest.Conn
	calls []call
	lost  bool // what may write is under way
}

func (r *recorder) Run(_ context.Context, action *script.Script, keys, args []string) (string, error) {
	c := call{action: action, keys: keys, args: args}
	if r.lost && !action.Repeats {
		r.calls = append(r.calls, c)
		return "", errLost
	}
	words := []any{"EVAL", action.Text, len(keys)}
	for _, word := range slices.Concat(keys, args) {
		words = append(words, word)
	}
	answer, ok := r.conn.Do(r.t, words...).(string)
	if !ok {
		return "", fmt.Errorf("the script %s failed", action.Name)
	}
	c.answer = answer
	r.calls = append(r.calls, c)
	return answer, nil
}

func (r *recorder) Listen(context.Context, string, store.Listener) (func(), error) {
	return func() {}, nil
}
func (r *recorder) Group(string) string                              { return "" }
func (r *recorder) Sharded() bool                                    { return true }
func (r *recorder) Server(context.Context) (store.ServerInfo, error) { return store.ServerInfo{}, nil }

// holders are the holders of the lock, each with what is left of its lease, in whole minutes.
func (r *recorder) holders(w neighbour.Wire) map[string]time.Duration {
	r.t.Helper()
	state, err := w.Inspect(r.t.Context(), "order")
	assert.Must(r.t, err)
	holders := make(map[string]time.Duration)
	for _, h := range state.Holders {
		holders[h.ID] = h.Left.Round(time.Minute)
	}
	return holders
}

// dump is all that the server has. Times are in whole minutes from now.
func (r *recorder) dump() map[string]string {
	r.t.Helper()
	all := make(map[string]string)
	for _, key := range r.conn.Do(r.t, "KEYS", "*").([]any) {
		var value any
		switch kind := r.conn.Do(r.t, "TYPE", key); kind {
		case "string":
			value = r.conn.Do(r.t, "GET", key)
		case "hash":
			value = r.conn.Do(r.t, "HGETALL", key)
		case "list":
			value = r.conn.Do(r.t, "LRANGE", key, 0, -1)
		case "zset":
			value = minutes(r.conn.Do(r.t, "ZRANGE", key, 0, -1, "WITHSCORES").([]any))
		default:
			r.t.Errorf("a key of type %v", kind)
		}
		ms, _ := r.conn.Do(r.t, "PTTL", key).(int64)
		left := time.Duration(ms) * time.Millisecond
		all[fmt.Sprint(key)] = fmt.Sprint(value, " for ", left.Round(time.Minute))
	}
	return all
}

// minutes writes the scores of a sorted set, which are times in ms, as minutes from now.
func minutes(pairs []any) []any {
	for i := 1; i < len(pairs); i += 2 {
		ms, _ := strconv.ParseFloat(fmt.Sprint(pairs[i]), 64)
		pairs[i] = time.Until(time.UnixMilli(int64(ms))).Round(time.Minute)
	}
	return pairs
}

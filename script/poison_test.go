package script_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/memstore"
	"github.com/holdfast-go/holdfast/script"
	"github.com/holdfast-go/holdfast/store"
)

// poisoned wraps a script. It makes the record of the first arguments, runs the script on it at a
// fixed time, and answers what the script said, how many commands it ran, and the record after it.
// A script that runs more commands than any step needs is stopped.
const poisoned = `#!lua
local fields, given = tonumber(ARGV[1]), ARGV
redis.call('DEL', KEYS[1])
redis.call('HSET', KEYS[1], unpack(given, 2, fields + 1))
redis.call('PEXPIRE', KEYS[1], 600000)
local ARGV = {unpack(given, fields + 2)}
local calls, server = 0, redis
local redis = (function()
	local function way(run)
		return function(name, ...)
			calls = calls + 1
			if calls > 2000 then error('POISON more than 2000 commands') end
			if name == 'TIME' then return {'SECONDS', 'MICROS'} end
			if name == 'INFO' then return 'run_id:poison' end
			return run(name, ...)
		end
	end
	return {call = way(server.call), pcall = way(server.pcall), error_reply = server.error_reply}
end)()
local known, answer = pcall(function()
BODY
end)
if type(answer) == 'table' then answer = answer.err end
if not known then answer = 'RAISED ' .. answer end
return {answer, calls, server.call('HGETALL', KEYS[1])}
`

// The time of the poisoned steps, and its token.
const poisonNow = 1_800_000_000_000

func poisonToken(back int64) string { return strconv.FormatInt((poisonNow-back)*1000, 10) }

// healthy are records that have every field. A time is relative to now: ~ms in a field. T is the
// token of a grant ten seconds ago.
var healthy = map[string]map[string]string{
	"free": {"lock": "T", "birth": "T", "lost": "T", "evicted": "~-500 ann why h/1"},
	"exclusive": {"lock": "T 30000 h/1", "birth": "T", "leader": "T 3 =a", "evicted": "~-500 ann why k/1",
		"eviction": "o/1 2"},
	"alone": {"lock": "T 30000 h/1 +1 ~9000 ~-9 30000 03000 l/1", "birth": "T"},
	"pushed": {"lock": "T 012000 h/1 +", "birth": "T", "queue": "1 1 1", "#1": "l/1",
		"w:l/1": "1 x 1 30000 ~9000 ~-9"},
	"expired": {"lock": "T 09000 h/1 +", "birth": "T", "queue": "1 1 1", "#1": "l/1",
		"w:l/1": "1 x 1 30000 ~9000 ~-9"},
	"kept": {"lock": "T 30000 @%kept", "birth": "T", "entries": "h/1"},
	"queue": {"lock": "T 30000 h/1 +!", "birth": "T", "lost": "5 T", "queue": "2 1 3 ~~8000:3 s", "#1": "l/1",
		"w:l/1": "1 x 1 30000 ~9000 ~-9", "#3": "m/1", "w:m/1": "3 s 1 30000 ~9000 ~-8 own"},
	"far": {"lock": "T 9000 h/1 +", "birth": "T", "limit": "3", "queue": "2 1 900 >500", "#1": "m/1",
		"w:m/1": "1 p 2 30000 ~9000 ~-9", "#900": "l/1", "w:l/1": "900 p 1 30000 ~9000 ~-8"},
	"owner": {"lock": "T 30000 @own", "birth": "T", "entries": "h/1 k/1"},
	"readers": {"lock": "T 0 - +", "birth": "5", "shares": "2 s ~8000", "h:h/1": "s ~8000 1 T ~-9",
		"h:k/1": "s ~9000 1 5 ~-9 own"},
	"sweep": {"lock": "T 0 - +", "birth": "5", "shares": "2 s ~-7 >5:other:~8000", "h:h/1": "s ~8000 1 T ~-9",
		"h:k/1": "s 0~-7 1 5 ~-99", "queue": "1 1 1", "#1": "l/1", "w:l/1": "1 x 1 30000 ~9000 ~-9"},
	"permits": {"lock": "T 0 - +", "birth": "5", "limit": "3", "shares": "3 p ~8000", "h:h/1": "p ~8000 2 T ~-9",
		"h:k/1": "p ~9000 1 5 ~-9", "queue": "1 1 1", "#1": "l/1", "w:l/1": "1 p 1 30000 ~9000 ~-9"},
	"job": {"lock": "T 30000 h/1", "birth": "T", "period": "~20000 h/1 60000 -", "undone": "k/1", "tries": "1 3"},
}

// poisonFields are the fields of a record, as docs/protocol.md has them.
var poisonFields = []string{
	"lock", "birth", "lost", "entries", "limit", "shares", "h:", "queue", "#", "w:", "evicted", "period", "leader",
	"eviction", "undone", "tries",
}

// poisonRequests are what every script is asked on each record. Nil: it works on no lock's record.
var poisonRequests = map[*script.Script][]string{
	script.Acquire: {"n/1 30000 630000 x 60000 p:", "n/1 30000 630000 s 0 p:", "n/1 30000 630000 p:1:3 0 p:",
		"l/1 30000 630000 x 60000 p:", "n/1 30000 630000 x 60000 p: own", "n/1 30000 630000 s 0 p: own"},
	script.AcquireFree: {"30000 630000 n/1"},
	script.Release:     {"h/1 T 600000 p:", "k/1 T 600000 p: own", "l/1 5 600000 p:"},
	script.ReleaseIdle: {"h/1"},
	script.Renew:       {"600000 30000 h/1", "600000 30000 k/1_30000_own"},
	script.Poll:        {"l/1 30000 600000 60000 p:", "m/1 30000 600000 60000 p: own", "h/1 30000 600000 60000 p:"},
	script.Cancel:      {"h/1 600000 p:", "l/1 600000 p:", "k/1 600000 p: own"},
	script.Inspect:     {"", "p", "h"},
	script.Evict: {"ann why 0 600000 p:", "ann why T 600000 p:", "ann why force 600000 p:",
		"ann why 0 600000 p: o/1 T", "ann why 0 600000 p: o/2 T", "ann why force 600000 p: o/1 0",
		"ann why force 600000 p: o/1 T"},
	script.Convert:    {"h/1 T s 30000 600000 p:", "h/1 T x 30000 600000 p:"},
	script.SetLimit:   {"2 600000 p:"},
	script.Lessen:     {"h/1 1000 1 600000 p:"},
	script.AcquireAll: {"n/1 30000 600000 p:", "h/1 30000 600000 p:"},
	script.BeginRun: {"n/1 30000 600000 60000 - now p:", "n/1 30000 600000 60000 - now p: 3",
		"h/1 30000 600000 60000 - change p:"},
	script.CancelRun:      {"h/1 600000 p:", "k/1 600000 p:", "h/1 600000 p: 1"},
	script.Proclaim:       {"h/1 T 4 =b p:w 600000", "h/1 T 2 =b p:w 600000"},
	script.ReadLeader:     {""},
	script.Resume:         {"n/1 h/1 T 30000 600000 p:w p:"},
	script.ReleaseAfter:   {"h/1 T 60000 100 600000 p:", "k/1 T 60000 100 600000 p: own"},
	script.AwaitFree:      {"x 1 600000 p:", "p:1:3 0 600000 p:"},
	script.RaiseFence:     {"h/1 T 600000", "k/1 T 600000 own"},
	script.Check:          {"T", "5"},
	script.CheckACL:       nil,
	script.RegisterClient: nil,
	script.ReadClient:     nil,
	script.MarkServer:     nil,
}

// poisons are what a word of a field is replaced by.
var poisons = []string{
	"", "0", "-1", "007", "1e9", "0x10", "nan", "7 7", "\t", "\n7", "9007199254740992", "99999999999999999999", "word",
	"900719925474099", "1",
}

func filled(value string) string {
	value = regexp.MustCompile(`~(-?\d+)`).ReplaceAllStringFunc(value, func(word string) string {
		ms, err := strconv.ParseInt(word[1:], 10, 64)
		if err != nil {
			panic(err)
		}
		return strconv.FormatInt(poisonNow+ms, 10)
	})
	return regexp.MustCompile(`\bT\b`).ReplaceAllString(value, poisonToken(10_000))
}

func healthyRecord(name string) map[string]string {
	record := map[string]string{}
	for field, value := range healthy[name] {
		record[field] = filled(value)
	}
	return record
}

// No script and no field can escape: all of them are in the tables here.
func TestPoisonKnowsEveryScriptAndField(t *testing.T) {
	for _, s := range script.All() {
		_, known := poisonRequests[s]
		assert.True(t, known, "%s has no request in poisonRequests", s.Name)
		work := strings.Contains(s.Source(), "record") && s != script.CheckACL && s != script.RegisterClient &&
			s != script.ReadClient && s != script.MarkServer
		assert.True(t, !work || len(poisonRequests[s]) > 0, "%s is never asked", s.Name)
	}
	page, err := os.ReadFile("../docs/protocol.md")
	assert.Must(t, err)
	_, table, _ := strings.Cut(string(page), "## The record\n")
	table, _, _ = strings.Cut(table, "\n\nA field is absent")
	var written []string
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-z]+:?|#)").FindAllStringSubmatch(table, -1) {
		written = append(written, m[1])
	}
	assert.Equal(t, fmt.Sprint(sorted(written)), fmt.Sprint(sorted(poisonFields)), "the fields in docs/protocol.md")
	used := regexp.MustCompile(`\bfields\.(\w+)|fields\['(h:|w:|#)'|'(h:|w:|#)' \.\.|HM?GET', key, '(\w+)'`)
	for _, s := range script.All() {
		for _, m := range used.FindAllStringSubmatch(s.Text, -1) {
			field := strings.Join(m[1:], "")
			other := poisonRequests[s] == nil // the record of a client, or a quorum's mark
			assert.True(t, other || slices.Contains(poisonFields, field), "%s uses the field %s", s.Name, field)
		}
	}
	had := map[string]bool{}
	for _, record := range healthy {
		for field := range record {
			had[kindOfField(field)] = true
		}
	}
	assert.Equal(t, fmt.Sprint(slices.Sorted(maps.Keys(had))), fmt.Sprint(sorted(poisonFields)), "the fields here")
}

func sorted(list []string) []string { return slices.Sorted(slices.Values(list)) }

func kindOfField(field string) string {
	return regexp.MustCompile(`^([hw]:|#)?.*$`).ReplaceAllStringFunc(field, func(string) string {
		if at := strings.IndexAny(field, ":#"); at >= 0 {
			return field[:at+1]
		}
		return field
	})
}

// poisonTrial has both sides: the scripts on a server, and memstore.
type poisonTrial struct {
	conn *redistest.Conn
	sha  map[*script.Script]string
	spec *memstore.Store

	// sound has what each request does on a healthy record.
	sound map[string]shown
}

func newPoisonTrial(t testing.TB) *poisonTrial {
	server := redistest.Start(t, redistest.Args("--busy-reply-threshold", "200"))
	p := &poisonTrial{conn: server.Dial(t), sha: map[*script.Script]string{}, spec: memstore.New(),
		sound: map[string]shown{}}
	ear := server.Dial(t)
	ear.Do(t, "SUBSCRIBE", "p:l")
	stop, err := p.spec.Listen(context.Background(), "p:l", store.Listener{Message: func(string) {}})
	assert.Must(t, err)
	t.Cleanup(stop)
	p.spec.SetClock(func() time.Time { return time.UnixMilli(poisonNow) })
	for s, asked := range poisonRequests {
		if asked == nil {
			continue
		}
		text := strings.Replace(poisoned, "BODY", s.Body(), 1)
		text = strings.NewReplacer("SECONDS", strconv.Itoa(poisonNow/1000), "MICROS", "0").Replace(text)
		p.sha[s] = p.conn.Do(t, "SCRIPT", "LOAD", text).(string)
	}
	server.KillEndless(t)
	for name := range healthy {
		for s, lines := range poisonRequests {
			for _, line := range lines {
				record, args := healthyRecord(name), poisonArgs(s, line)
				p.send(t, s, record, args)
				got, want := p.receive(t, s), p.specified(s, record, args)
				p.sound[name+s.Name+line] = got
				assert.True(t, got.answer == want.answer && maps.Equal(p.canonical(got.fields), want.fields),
					"%s %q on %s: answers %q and leaves\n%q\nmemstore %q\n%q", s.Name, args, name,
					got.answer, got.fields, want.answer, want.fields)
			}
		}
	}
	return p
}

// shown is what a step did.
type shown struct {
	answer string
	calls  int64
	fields map[string]string

	refuses bool
}

func (p *poisonTrial) send(t testing.TB, s *script.Script, record map[string]string, args []string) {
	keys := []any{"{k}"}
	if s == script.RaiseFence {
		keys = append(keys, "{k}mark")
	}
	words := append([]any{"EVALSHA", p.sha[s], len(keys)}, keys...)
	words = append(words, 2*len(record))
	for field, value := range record {
		words = append(words, field, value)
	}
	for _, arg := range args {
		words = append(words, arg)
	}
	p.conn.Send(t, words...)
}

func (p *poisonTrial) receive(t testing.TB, s *script.Script) shown {
	reply, ok := p.conn.Receive(t).([]any)
	assert.MustTrue(t, ok, "%s ends with %v", s.Name, reply)
	list := reply[2].([]any)
	o := shown{answer: poisonAnswer(s, reply[0].(string)), calls: reply[1].(int64), fields: map[string]string{}}
	for i := 0; i < len(list); i += 2 {
		o.fields[list[i].(string)] = list[i+1].(string)
	}
	return o
}

// specified is what memstore does with the request.
func (p *poisonTrial) specified(s *script.Script, record map[string]string, args []string) shown {
	p.spec.PlantRecord("{k}", record)
	keys := []string{"{k}"}
	if s == script.RaiseFence {
		keys = append(keys, "{k}mark")
	}
	answer, err := p.spec.Run(context.Background(), s, keys, args)
	var refused *store.ServerError
	if errors.As(err, &refused) {
		answer = refused.Message
	}
	return shown{answer: poisonAnswer(s, answer), fields: p.spec.Dump("{k}")}
}

// poisonAnswer is an answer without what differs between the two sides: the life of the record, and
// the run of the server.
func poisonAnswer(s *script.Script, answer string) string {
	words := strings.Fields(answer)
	switch {
	case s == script.RaiseFence && words[0] == "raised":
		return strings.Join(words[:3], " ")
	case s == script.Inspect && words[0] == "lock":
		return regexp.MustCompile(`^(lock \d+ \d+ \d+) -?\d+`).ReplaceAllString(answer, "$1 0")
	}
	return answer
}

// canonical is a record as memstore writes it.
func (p *poisonTrial) canonical(fields map[string]string) map[string]string {
	p.spec.PlantRecord("{k}", fields)
	return p.spec.Dump("{k}")
}

// several are the scripts on several keys that answer - for a key that they refuse.
var several = []*script.Script{script.Renew, script.AcquireFree, script.ReleaseIdle}

// refused reports whether an answer refuses the record.
func refused(s *script.Script, answer string) bool {
	return strings.HasPrefix(answer, "FORMAT ") || strings.HasPrefix(answer, "WRONGTYPE ") ||
		strings.HasSuffix(answer, " -") && slices.Contains(several, s) || answer == "-" && s == script.Check
}

// try runs every script on a healthy record in which one field has this value.
func (p *poisonTrial) try(t testing.TB, name, field, value string) {
	record := healthyRecord(name)
	record[field] = value // an empty one counts as absent
	damaged := p.specified(script.Inspect, record, nil).answer
	if !refused(script.Inspect, damaged) {
		damaged = ""
	}
	for _, s := range script.All() {
		for _, line := range poisonRequests[s] {
			p.send(t, s, record, poisonArgs(s, line))
		}
	}
	for _, s := range script.All() {
		for _, line := range poisonRequests[s] {
			got, args := p.receive(t, s), poisonArgs(s, line)
			want := p.specified(s, record, args)
			if got.refuses = refused(s, got.answer); damaged != "" {
				want.answer = damaged
			}
			what := fmt.Sprintf("%s %q on %s with %s = %.80q", s.Name, args, name, field, value)
			p.judge(t, s, what, field, record, got, p.sound[name+s.Name+line], want)
		}
	}
}

// poisonArgs are the arguments of a request. A _ in an argument is a space.
func poisonArgs(s *script.Script, line string) []string {
	args := strings.Fields(filled(line))
	for i := range args {
		if s == script.Renew {
			args[i] = strings.ReplaceAll(args[i], "_", " ")
		}
	}
	return args
}

// readable returns an error if a client cannot read an answer. The other scripts answer one word, or tokens.
func readable(s *script.Script, answer string) (err error) {
	switch s {
	case script.Acquire, script.Release, script.Poll, script.Cancel, script.Evict, script.SetLimit, script.Lessen,
		script.ReleaseAfter, script.CancelRun, script.AwaitFree:
		_, err = wire.Parse(answer)
	case script.AcquireAll:
		_, err = wire.ParseAll(answer, 1)
	case script.BeginRun:
		_, err = wire.ParseRun(answer)
	case script.ReadLeader:
		_, err = wire.ParseLeader(answer)
	case script.Resume:
		if answer != "gone" {
			_, err = wire.ParseResume(answer)
		}
	case script.Inspect:
		_, err = wire.ParseRecord(answer)
	}
	return err
}

func (p *poisonTrial) judge(
	t testing.TB, s *script.Script, what, field string, record map[string]string, got, sound, want shown,
) {
	same := maps.Equal(got.fields, record)
	switch {
	case strings.HasPrefix(got.answer, "RAISED ") || strings.HasPrefix(got.answer, "ERR "):
		t.Errorf("%s: raises %q", what, got.answer)
	case got.refuses && !same:
		t.Errorf("%s: answers %q and leaves\n%q\nof\n%q", what, got.answer, got.fields, record)
	case refused(script.Inspect, want.answer):
		if got.refuses || strings.Contains(what, "force") {
			return
		}
		// If the fields only disagree with each other, a step that has not read them all may go on. Else
		// it has not used the field, and did what it does with a sound one.
		if strings.Contains(want.answer, "agree with others") {
			return
		}
		left, right := maps.Clone(got.fields), maps.Clone(sound.fields)
		assert.True(t, left[field] == record[field] || left[field] == right[field],
			"%s: answers %q and leaves %s = %q", what, got.answer, field, left[field])
		delete(left, field)
		delete(right, field)
		assert.True(t, got.answer == sound.answer && maps.Equal(left, right),
			"%s: answers %q, and %q on a sound record; memstore %q\n%q\n%q", what, got.answer, sound.answer,
			want.answer, left, right)
	case got.answer != want.answer:
		t.Errorf("%s: answers %q, and memstore %q", what, got.answer, want.answer)
	case !got.refuses && readable(s, got.answer) != nil:
		t.Errorf("%s: answers %q, which no client can read: %v", what, got.answer, readable(s, got.answer))
	default:
		assert.True(t, maps.Equal(p.canonical(got.fields), want.fields), "%s: answers %q and leaves\n%q\nmemstore\n%q",
			what, got.answer, got.fields, want.fields)
	}
}

// poisonedValues are what the field becomes: one word after the other is poisoned. With few, each
// word gets some of the poisons, and its neighbours the others.
func poisonedValues(value string, few bool) (list []string) {
	words := regexp.MustCompile(`[^ :]+|[ :]`).FindAllString(value, -1)
	for i := range words {
		for n, poison := range poisons {
			if few && (n+i/2)%9 != 0 {
				continue
			}
			changed := slices.Clone(words)
			changed[i] = poison
			list = append(list, strings.Join(changed, ""))
		}
	}
	return append(list, value+" 7", value+" ", " "+value, strings.Repeat(value+" ", 50)+value)
}

var everyPoison = flag.Bool("poisons", false, "FuzzPoisonedRecords tries every poison at every word: two minutes")

// FuzzPoisonedRecords throws records that no version wrote at every script. Its seeds poison each
// word of each field. No step raises an error, runs without end, or changes a record that it
// refuses; and it says what memstore says. Guarantee: I14.
func FuzzPoisonedRecords(f *testing.F) {
	for _, name := range slices.Sorted(maps.Keys(healthy)) {
		for field, value := range healthyRecord(name) {
			for _, poison := range poisonedValues(value, !*everyPoison) {
				f.Add(name, field, poison)
			}
		}
	}
	f.Add("readers", "queue", "1 1 9007199254740992") // it kept a server busy for ever
	p := newPoisonTrial(f)
	f.Fuzz(func(t *testing.T, name, field, value string) {
		if healthy[name] == nil {
			return
		}
		p.try(t, name, field, value)
	})
}

// A request that would make the only waiter of a record unreadable is refused, and the holder keeps its
// record. Guarantee: I14.
func TestAWaiterThatNoStepCouldReadIsRefused(t *testing.T) {
	conn := redistest.Start(t).Dial(t)
	for _, args := range []string{
		"word 30000 630000 x 60000 p:", "/1 30000 630000 x 60000 p:", "n/ 30000 630000 x 60000 p:",
		"n/1 100000000000000 100000000600000 x 60000 p:", "n/1 30000 630000 x 1000000000000000 p:",
	} {
		ask := func(args string) any {
			words := []any{"EVAL", script.Acquire.Text, 1, "{k}"}
			for word := range strings.SplitSeq(args, " ") {
				words = append(words, word)
			}
			return conn.Do(t, words...)
		}
		conn.Do(t, "DEL", "{k}")
		ask("h/1 30000 630000 x 0 p:")
		before := fields(t, conn, "{k}")
		answer := fmt.Sprint(ask(args))
		assert.True(t, strings.HasPrefix(answer, "FORMAT "), "%s is answered %s", args, answer)
		assert.True(t, maps.Equal(before, fields(t, conn, "{k}")), "%s leaves %q", args, fields(t, conn, "{k}"))
	}
}

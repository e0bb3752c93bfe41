package transcript

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/script"
	"github.com/holdfast-go/holdfast/store"
)

// server runs the scripts on a real server.
//
// A test cannot advance a server's clock. So Advance makes the records older instead: it moves
// every time in them, and their TTLs, back by that much. That is the same, because only the
// distance of a time from now matters. Tokens are compared only with each other and with the
// clock. They do not change, unless the clock must be set back: then they move ahead.
type server struct {
	t          *testing.T
	conn       *redistest.Conn
	user       *redistest.Conn // with the rights that a client has
	subscriber *redistest.Conn
	syncs      int
}

// syncChannel carries the marks of Pushes.
const syncChannel = "golden:sync"

// Start starts a server for Server. Its clients have the permissions of those of a quorum and of a
// Cluster: the transcripts show both.
func Start(t testing.TB, opts ...redistest.Option) *redistest.Server {
	t.Helper()
	return redistest.Start(t, append(opts, redistest.Tenant(""),
		redistest.Allow("+info", "+spublish", "+pubsub|shardnumsub"))...)
}

// Server returns an opener of drivers on s, which is emptied each time.
func Server(s *redistest.Server) func(t *testing.T) Driver {
	return func(t *testing.T) Driver {
		s := &server{t: t, conn: s.Dial(t), user: redistest.Dial(t, s.Addr()), subscriber: s.Dial(t)}
		s.conn.Do(t, "FLUSHALL", "ASYNC") // with SYNC, the server gives memory back to the system
		s.subscriber.Do(t, "SUBSCRIBE", syncChannel)
		return s
	}
}

func (s *server) Run(action *script.Script, keys, args []string) (string, error) {
	words := []any{"EVALSHA", action.SHA1, len(keys)}
	for _, word := range append(keys, args...) {
		words = append(words, word)
	}
	reply := s.user.Do(s.t, words...)
	if err, ok := reply.(redistest.Error); ok && strings.HasPrefix(string(err), "NOSCRIPT ") {
		words[0], words[1] = "EVAL", action.Text
		reply = s.user.Do(s.t, words...)
	}
	switch reply := reply.(type) {
	case string:
		return reply, nil
	case redistest.Error:
		code, _, _ := strings.Cut(string(reply), " ")
		return "", &store.ServerError{Code: code, Message: string(reply)}
	default:
		return "", fmt.Errorf("the script answered %v", reply)
	}
}

func (s *server) Listen(channel string)      { s.subscribe("SUBSCRIBE", channel) }
func (s *server) Unsubscribe(channel string) { s.subscribe("UNSUBSCRIBE", channel) }

func (s *server) subscribe(verb, channel string) {
	if strings.Contains(channel, "{") {
		verb = "S" + verb
	}
	s.subscriber.Do(s.t, verb, channel)
}

// Pushes publishes a mark and returns the pushes that come before it.
func (s *server) Pushes() (heard []Push) {
	s.syncs++
	mark := strconv.Itoa(s.syncs)
	s.conn.Do(s.t, "PUBLISH", syncChannel, mark)
	for {
		list, ok := s.subscriber.Receive(s.t).([]any)
		assert.MustTrue(s.t, ok && len(list) == 3, "not a message: %v", list)
		push := Push{fmt.Sprint(list[1]), fmt.Sprint(list[2])}
		if push.Channel == syncChannel {
			return heard
		}
		heard = append(heard, push)
	}
}

func (s *server) Now() int64 {
	clock := s.conn.Do(s.t, "TIME").([]any)
	return number(clock[0].(string))*1000 + number(clock[1].(string))/1000
}

func (s *server) Fields(key string) map[string]string {
	list := s.conn.Do(s.t, "HGETALL", key).([]any)
	if len(list) == 0 {
		return nil
	}
	fields := map[string]string{}
	for i := 0; i < len(list); i += 2 {
		fields[list[i].(string)] = list[i+1].(string)
	}
	return fields
}

func (s *server) TTL(key string) int64 { return s.conn.Do(s.t, "PTTL", key).(int64) }

func (s *server) Plant(key string, later bool) {
	if later {
		s.conn.Do(s.t, "HSET", key, "lock", "a record of a later format")
	} else {
		s.conn.Do(s.t, "SET", key, "foreign")
	}
}

func (s *server) Advance(by time.Duration) (tokens int64) {
	ms := by.Milliseconds()
	if ms < 0 {
		tokens = -ms * 1000
	}
	for _, key := range s.conn.Do(s.t, "KEYS", "*").([]any) {
		s.age(key.(string), ms, tokens)
	}
	return tokens
}

// age makes one record older.
func (s *server) age(key string, ms, tokens int64) {
	life := s.TTL(key) - ms
	if life <= 0 {
		s.conn.Do(s.t, "DEL", key)
		return
	}
	for field, value := range s.Fields(key) {
		if aged := older(field, value, ms, tokens); aged != value {
			s.conn.Do(s.t, "HSET", key, field, aged)
		}
	}
	s.conn.Do(s.t, "PEXPIRE", key, life)
}

// older returns what a field of the record would be if everything had happened ms earlier.
func older(field, value string, ms, tokens int64) string {
	words := strings.Split(value, " ")
	add := func(by int64, places ...int) {
		for _, i := range places {
			words[i] = unsure(strings.TrimPrefix(words[i], "-")) + strconv.FormatInt(number(words[i])+by, 10)
			words[i] = strings.NewReplacer("~-", "-0", "~", "0").Replace(words[i])
		}
	}
	switch {
	case field == "evicted" || field == "born":
		add(-ms, 0)
	case field == "period":
		add(-ms, 0)
	case field == "queue":
		for i, word := range words {
			if till, place, ok := strings.Cut(word, ":"); ok {
				words[i] = till[:1] + strconv.FormatInt(number(till[1:])-ms, 10) + ":" + place
			}
		}
	case field == "shares":
		add(-ms, 2)
	case field == "lock":
		if len(words) > 4 { // the only waiter
			add(-ms, 4, 5)
		}
		if tokens == 0 && len(words) > 2 && words[2] != "-" {
			add(-ms, 1)
		}
		add(tokens, 0)
	case field == "birth" || field == "leader":
		add(tokens, 0)
	case field == "lost":
		for i := range words {
			add(tokens, i)
		}
	case strings.HasPrefix(field, "h:"):
		add(-ms, 1, 4)
		add(tokens, 3)
	case strings.HasPrefix(field, "w:"):
		add(-ms, 4, 5)
	}
	return strings.Join(words, " ")
}

func number(word string) int64 {
	n, err := strconv.ParseInt(word, 10, 64)
	if err != nil {
		panic("BUG: not a number in a record: " + word)
	}
	return n
}

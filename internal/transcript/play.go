package transcript

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/script"
	"github.com/holdfast-go/holdfast/store"
)

// player plays one scenario.
type player struct {
	driver  Driver
	symbols symbols
	lock    string
	sharded bool
}

func newPlayer(d Driver) *player { return &player{driver: d, lock: "a"} }

// play returns the scenario with the answers that it got.
func (p *player) play(t *testing.T, s scenario) (out []string) {
	t.Helper()
	for i, line := range s.lines {
		if isOutput(line) {
			continue
		}
		out = append(out, line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		answer, err := p.command(line)
		assert.MustTrue(t, err == nil, "line %d: %s: %v", s.start+i, line, err)
		out = append(out, answer...)
	}
	return out
}

func (p *player) key() string { return "golden:{" + p.lock + "}" }

func (p *player) base() string {
	if p.sharded {
		return "golden:push:{" + p.lock + "}:"
	}
	return "golden:push:"
}

func (p *player) watched() string {
	if p.sharded {
		return "golden:{" + p.lock + "}:watch"
	}
	return "golden:watch=" + p.lock
}

// command carries out one line and returns the output.
func (p *player) command(line string) ([]string, error) {
	c, err := p.parse(line)
	if err != nil {
		return nil, err
	}
	var shown []string
	switch c.verb {
	case "listen":
		p.driver.Listen(p.base() + c.word())
	case "unsubscribe":
		p.driver.Unsubscribe(p.base() + c.word())
	case "advance":
		d, err := time.ParseDuration(c.word())
		if err != nil {
			return nil, err
		}
		p.symbols.move(p.driver.Advance(d))
	case "lock":
		p.lock = c.word()
	case "watch":
		p.driver.Listen(p.watched())
	case "sharded":
		p.sharded = true
	case "plant":
		p.driver.Plant(p.key(), c.word() == "later")
	case "dump":
		shown = p.dump()
	case "ttl":
		key := p.key()
		if len(c.words) > 0 {
			key = clientKey + c.word()
		}
		shown = []string{"=> " + p.symbols.duration(p.driver.TTL(key))}
	default:
		shown, err = p.act(c)
	}
	if err != nil {
		return nil, err
	}
	if err := c.leftover(); err != nil {
		return nil, err
	}
	return append(shown, p.pushes()...), nil
}

func (p *player) acquire(c *command) []string {
	attempt, ttl := c.word(), c.opt("ttl", "30s")
	return []string{attempt, ttl, sum(ttl, c.opt("retention", "600s")), c.opt("mode", "x"),
		c.opt("waiter_ttl", "0"), p.base()}
}

func (p *player) evict(c *command) []string {
	args := []string{c.opt("by", "ops"), c.opt("reason", "stuck"), c.opt("token", "0"), c.opt("retention", "600s"),
		p.base()}
	if request := c.opt("request", ""); request != "" {
		args = append(args, request, c.opt("upto", "0"))
	}
	if how := c.opt("how", ""); how != "" {
		args = append(args, how)
	}
	return args
}

func (p *player) awaitFree(c *command) []string {
	return []string{c.opt("mode", "x"), c.opt("watches", "0"), c.opt("retention", "600s"), p.base()}
}

// markKey is the key of a quorum's mark, and clientKey begins that of a client's record.
const markKey, clientKey = "golden:quorum", "golden:client:"

// act runs an action of the protocol.
func (p *player) act(c *command) ([]string, error) {
	keys, args := []string{p.key()}, []string(nil)
	switch c.verb {
	case "acquire":
		args = p.acquire(c)
	case "release":
		args = []string{c.word(), c.opt("token", "0"), c.opt("retention", "600s"), p.base()}
	case "poll":
		args = []string{c.word(), c.opt("ttl", "30s"), c.opt("retention", "600s"),
			c.opt("waiter_ttl", "60s"), p.base()}
	case "cancel":
		args = []string{c.word(), c.opt("retention", "600s"), p.base()}
	case "inspect":
		if mode := c.opt("mode", ""); mode != "" {
			args = []string{mode}
		}
	case "evict":
		args = p.evict(c)
	case "acquire_free", "release_idle", "check":
		keys, args = p.several(c)
	case "convert":
		args = []string{c.word(), c.opt("token", "0"), c.opt("mode", "s"), c.opt("ttl", "30s"),
			c.opt("retention", "600s"), p.base()}
	case "lessen":
		args = []string{c.word(), c.opt("ttl", "0"), c.opt("permits", "0"), c.opt("retention", "600s"), p.base()}
	case "set_limit":
		args = []string{c.word(), c.opt("retention", "600s"), p.base()}
	case "renew":
		keys, args = p.renew(c)
	case "acquire_all":
		keys, args = p.acquireAll(c)
	case "begin_run":
		args = c.with("tries", c.word(), c.opt("ttl", "30s"), c.opt("retention", "600s"), c.opt("period", "3600s"),
			p.instant(c.opt("offset", "-")), c.opt("first", "now"), p.base())
	case "cancel_run":
		args = c.with("done", c.word(), c.opt("retention", "600s"), p.base())
	case "proclaim":
		args = []string{c.word(), c.opt("token", "0"), c.opt("number", "1"), c.opt("value", ""), p.watched(),
			c.opt("retention", "600s")}
	case "resume":
		args = p.resume(c)
	case "release_after":
		args = []string{c.word(), c.opt("token", "0"), c.opt("min_hold", "0"), c.opt("keep", "0"),
			c.opt("retention", "600s"), p.base()}
	case "await_free":
		args = p.awaitFree(c)
	case "check_acl":
		args = []string{p.base() + c.word()}
	case "read_leader":
	case "register_client":
		keys, args = p.registerClient(c)
	case "raise_fence":
		keys, args = append(keys, markKey), []string{c.word(), c.opt("token", "0"), c.opt("retention", "600s")}
	case "mark_server":
		keys, args = []string{markKey}, []string{c.opt("ttl", "3600s")}
		if mark := c.opt("new", ""); mark != "" {
			args = append(args, c.opt("old", "-"), mark)
		}
	case "read_client":
		keys = []string{clientKey + c.word()}
		args, c.words = c.words, nil
	default:
		return nil, errors.New("no such command")
	}
	if owner := c.opt("owner", ""); owner != "" {
		args = append(args, owner)
	}
	return p.run(c.verb, keys, args)
}

// several parses acquisitions of the form [LOCK:]ATTEMPT, and tokens of the form [LOCK:]TOKEN. A token that was not
// seen is no number, and the script refuses it.
func (p *player) several(c *command) (keys, args []string) {
	if c.verb == "acquire_free" {
		ttl := c.opt("ttl", "30s")
		args = []string{ttl, sum(ttl, c.opt("retention", "600s"))}
	}
	for len(c.words) > 0 {
		key, word := p.named(c.word())
		if token, err := p.symbols.token(word); err == nil && c.verb == "check" {
			word = token
		}
		keys, args = append(keys, key), append(args, word)
	}
	return keys, args
}

// registerClient parses a client and notes of the form FIELD/VALUE.
func (p *player) registerClient(c *command) (keys, args []string) {
	keys = []string{clientKey + c.word()}
	args = []string{c.opt("ttl", "900s"), c.opt("app", "shop"), c.opt("host", "web-1"), c.opt("pid", "42"),
		c.opt("version", "v1"), c.opt("started", "7")}
	for len(c.words) > 0 {
		field, value, _ := strings.Cut(c.word(), "/")
		args = append(args, field, value)
	}
	return keys, args
}

// named parses [LOCK:]ATTEMPT.
func (p *player) named(word string) (key, attempt string) {
	if name, attempt, ok := strings.Cut(word, ":"); ok {
		return "golden:{" + name + "}", attempt
	}
	return p.key(), word
}

// renew parses leases of the form [LOCK:]ATTEMPT[@OWNER].
func (p *player) renew(c *command) (keys, args []string) {
	ttl, own := c.opt("ttl", "30s"), c.opt("own", "")
	args = []string{c.opt("retention", "600s"), ttl}
	for len(c.words) > 0 {
		lease, owner, _ := strings.Cut(c.word(), "@")
		key, attempt := p.named(lease)
		keys, args = append(keys, key), append(args, wire.LeaseWord(attempt, cmp.Or(own, ttl), owner, ttl))
	}
	return keys, args
}

// acquireAll parses an attempt and names of locks.
func (p *player) acquireAll(c *command) (keys, args []string) {
	args = []string{c.word(), c.opt("ttl", "30s"), c.opt("retention", "600s")}
	for len(c.words) > 0 {
		keys, args = append(keys, "golden:{"+c.word()+"}"), append(args, p.base())
	}
	return keys, args
}

func (p *player) run(verb string, keys, args []string) ([]string, error) {
	i := slices.IndexFunc(script.All(), func(s *script.Script) bool { return s.Name == verb })
	answer, err := p.driver.Run(script.All()[i], keys, args)
	var refused *store.ServerError
	switch {
	case errors.As(err, &refused):
		return []string{"=> error " + refused.Code}, nil
	case err != nil:
		return nil, err
	}
	var shown []string
	for line := range strings.SplitSeq(answer, "\n") {
		shown = append(shown, "=> "+p.symbols.line(line, p.driver.Now()))
	}
	return shown, nil
}

func (p *player) dump() []string {
	fields := p.driver.Fields(p.key())
	if fields == nil {
		return []string{"=> nothing"}
	}
	var shown []string
	now := p.driver.Now()
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		show := p.symbols.line
		if name == "lock" {
			show = p.symbols.lock
		}
		shown = append(shown, "=> "+name+" "+show(fields[name], now))
	}
	return shown
}

// pushes returns the pushes since the last command, ordered by the name of the client.
func (p *player) pushes() (shown []string) {
	heard := p.driver.Pushes()
	slices.SortStableFunc(heard, func(a, b Push) int { return strings.Compare(a.Channel, b.Channel) })
	for _, push := range heard {
		client := push.Channel[strings.LastIndex(push.Channel, ":")+1:]
		shown = append(shown, client+" <- "+p.symbols.line(push.Payload, p.driver.Now()))
	}
	return shown
}

// command is one parsed line.
type command struct {
	verb  string
	words []string
	opts  map[string]string
}

func (p *player) parse(line string) (*command, error) {
	words := strings.Fields(line)
	c := &command{verb: words[0], opts: map[string]string{}}
	for _, word := range words[1:] {
		name, value, ok := strings.Cut(word, "=")
		if !ok || strings.Contains(name, "/") { // an attempt may end in =
			c.words = append(c.words, word)
			continue
		}
		if strings.HasPrefix(value, "T") && (name == "token" || name == "upto") {
			token, err := p.symbols.token(value)
			if err != nil {
				return nil, err
			}
			value = token
		}
		c.opts[name] = value
	}
	return c, nil
}

// word takes the next word, empty if there is none.
func (c *command) word() string {
	if len(c.words) == 0 {
		return ""
	}
	word := c.words[0]
	c.words = c.words[1:]
	return word
}

// with appends the value of an option to the arguments, if it is there.
func (c *command) with(name string, args ...string) []string {
	if value := c.opt(name, ""); value != "" {
		args = append(args, value)
	}
	return args
}

// opt takes an option. It returns a duration in ms.
func (c *command) opt(name, without string) string {
	value, ok := c.opts[name]
	delete(c.opts, name)
	if !ok {
		value = without
	}
	if d, err := time.ParseDuration(value); err == nil && value != "0" {
		return strconv.FormatInt(d.Milliseconds(), 10)
	}
	return value
}

// instant turns now-600s into the ms of the server's clock. Other words stay as they are.
func (p *player) instant(word string) string {
	since, ok := strings.CutPrefix(word, "now")
	if d, err := time.ParseDuration(since); ok && err == nil {
		return strconv.FormatInt(p.driver.Now()+d.Milliseconds(), 10)
	}
	return word
}

// sum adds durations in ms. If a word is no duration, the action refuses it.
func sum(a, b string) string {
	m, bad := strconv.ParseInt(a, 10, 64)
	n, wrong := strconv.ParseInt(b, 10, 64)
	if bad != nil || wrong != nil {
		return b
	}
	return strconv.FormatInt(m+n, 10)
}

func (c *command) leftover() error {
	if len(c.words) > 0 || len(c.opts) > 0 {
		return fmt.Errorf("%s does not take %v %v", c.verb, c.words, c.opts)
	}
	return nil
}

// resume reads the arguments of resume.
func (p *player) resume(c *command) []string {
	return []string{
		c.word(), c.opt("former", "-"), c.opt("token", "0"), c.opt("ttl", "30s"), c.opt("retention", "600s"),
		p.watched(), p.base(),
	}
}

package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/script"
)

// Client is what Read needs of a connection to one server.
type Client interface {
	Do(ctx context.Context, args ...any) *redis.Cmd
	Subscribe(ctx context.Context, channels ...string) *redis.PubSub
	SSubscribe(ctx context.Context, channels ...string) *redis.PubSub
}

// Node is one server to read.
type Node struct {
	Address  string // as it is shown: without user and password
	Host     string // what we connect to; "" if that is not known; a path for a socket
	TLS      bool
	Password bool // we send one
	User     string
	Client   Client
}

// How much is measured. A slow server is not asked for longer than enough for a first idea.
const (
	pings       = 50
	fewestPings = 5
	pingTime    = 5 * time.Second
	clockTrips  = 8
	slowEntries = 128
)

// settings are what is read by CONFIG GET.
var settings = []any{
	"config", "get", "save", "appendfsync", "stop-writes-on-bgsave-error", "min-replicas-to-write",
	"min-replicas-max-lag", "timeout", "tcp-keepalive", "busy-reply-threshold", "lua-time-limit",
	"slowlog-log-slower-than", "cluster-require-full-coverage", "cluster-allow-pubsubshard-when-down",
	"cluster-node-timeout", "bind", "protected-mode",
}

// reader reads one server. After a request without an answer it sends no more.
type reader struct {
	node  Node
	facts Facts
	err   error
}

// Read asks a server for its facts. It changes nothing but one key and one channel under the
// prefix, and removes the key again. A command that the server refuses becomes an Unread: no
// refusal makes Read fail. If no answer comes, Facts.Unreachable says why.
func Read(ctx context.Context, n Node, prefix string) Facts {
	r := &reader{node: n, facts: Refused(n, prefix, "")}
	r.all(ctx, prefix)
	if r.err != nil {
		return Facts{Address: n.Address, Unreachable: r.err}
	}
	return r.facts
}

// Refused are the facts of a server that answers everything with a refusal.
func Refused(n Node, prefix, refusal string) Facts {
	return Facts{
		Address: n.Address, Prefix: prefix, Local: Local(n.Host), TLS: n.TLS, Password: n.Password, User: n.User,
		Refusal: refusal,
	}
}

// Local reports whether a host, or the path of a socket, is on this machine.
func Local(host string) bool {
	ip := net.ParseIP(host)
	return strings.HasPrefix(host, "/") || host == "localhost" || ip != nil && ip.IsLoopback()
}

func (r *reader) all(ctx context.Context, prefix string) {
	f := &r.facts
	if _, err := r.do(ctx, "ping"); isState(err) {
		f.Refusal = err.Error()
	}
	f.Hello = pairs(r.quiet(ctx, "hello"))
	f.Info = fields(text(r.read(ctx, sourceInfo, "info")))
	if r.node.Host == "" {
		f.Local = localEnd(text(r.quiet(ctx, "client", "info")))
	}
	if f.Refusal != "" {
		// The rest would be refused, too.
		f.Unread = slices.DeleteFunc(f.Unread, func(u Unread) bool { return u.Why == f.Refusal })
		return
	}
	if user := text(r.quiet(ctx, "acl", "whoami")); user != "" {
		f.User = user
	}
	f.Config = pairs(r.read(ctx, sourceConfig, settings...))
	if f.Info["cluster_enabled"] == "1" || f.Hello["mode"] == "cluster" {
		f.Cluster = fields(text(r.read(ctx, sourceCluster, "cluster", "info")))
	}
	f.Default = defaultUser(r.read(ctx, sourceUsers, "acl", "getuser", "default"))
	if f.loadsAsDefault() {
		r.load(ctx)
	}
	r.latency(ctx)
	r.clock(ctx)
	r.slow(ctx)
	if f.Cluster == nil || f.Role() != "replica" { // a replica in a Cluster sends us to its primary
		r.pauses(ctx, prefix)
	}
	if f.Role() != "replica" {
		r.probe(ctx, prefix)
	}
}

// do sends a command. The error is a refusal; a missing answer is in r.err.
func (r *reader) do(ctx context.Context, args ...any) (any, error) {
	if r.err != nil {
		return nil, r.err
	}
	reply, err := r.node.Client.Do(ctx, args...).Result()
	if errors.Is(err, redis.Nil) && err.Error() == redis.Nil.Error() {
		err = nil // an answer; it is also inside the error of a client that finds no primary
	}
	if err != nil && !isRefusal(err) {
		r.err = err
	}
	return reply, err
}

// isRefusal reports whether a server answered. It may close the connection after that.
func isRefusal(err error) bool {
	var refused redis.Error
	var network net.Error
	return errors.As(err, &refused) && !errors.Is(err, redis.Nil) && !errors.As(err, &network) &&
		!errors.Is(err, io.EOF) && !login(err) && !strings.HasPrefix(err.Error(), noPrimary)
}

// noPrimary begins the client library's error if no Sentinel names a primary. Behind it is what one of them said,
// for example that it refuses the login: that is no answer of the primary.
const noPrimary = "redis: all sentinels"

// login reports whether err refuses our user or password: nothing can be read then.
func login(err error) bool {
	word, _, _ := strings.Cut(err.Error(), " ")
	return word == "NOAUTH" || word == "WRONGPASS"
}

// selectRefused is in the answer to a user who may not choose the database. The client sends that
// command before every other one.
const selectRefused = "'select' command"

// isState reports whether the server refuses nearly every command now, whatever it is.
func isState(err error) bool {
	if err == nil || !isRefusal(err) {
		return false
	}
	word, _, _ := strings.Cut(err.Error(), " ")
	return slices.Contains([]string{"LOADING", "BUSY", "MASTERDOWN", "UNKILLABLE"}, word) ||
		strings.HasPrefix(err.Error(), "ERR max number of clients") || strings.Contains(err.Error(), selectRefused)
}

// read is do for a source of facts: a refusal is remembered.
func (r *reader) read(ctx context.Context, source string, args ...any) any {
	reply, err := r.do(ctx, args...)
	if err != nil {
		r.facts.Unread = append(r.facts.Unread, Unread{source, err.Error()})
		return nil
	}
	return reply
}

// quiet is do for what is only nice to know.
func (r *reader) quiet(ctx context.Context, args ...any) any {
	reply, err := r.do(ctx, args...)
	if err != nil {
		return nil
	}
	return reply
}

// latency measures round trips. A user who may not send PING measures the refusals: they take
// the same way.
func (r *reader) latency(ctx context.Context) {
	begun := time.Now()
	for len(r.facts.Pings) < pings && (len(r.facts.Pings) < fewestPings || time.Since(begun) < pingTime) {
		sent := time.Now()
		r.quiet(ctx, "ping")
		if r.err != nil {
			return
		}
		r.facts.Pings = append(r.facts.Pings, time.Since(sent))
	}
	slices.Sort(r.facts.Pings)
}

// clock reads the server's clock over several round trips, and keeps the shortest: the server
// read its clock somewhere between request and answer.
func (r *reader) clock(ctx context.Context) {
	var best *Clock
	for range clockTrips {
		sent := time.Now()
		reply, err := r.do(ctx, "time")
		trip := time.Since(sent)
		if err != nil {
			r.facts.Unread = append(r.facts.Unread, Unread{sourceTime, err.Error()})
			return
		}
		if at, ok := serverTime(reply); ok && (best == nil || trip/2 < best.Error) {
			best = &Clock{At: at, Offset: at.Sub(sent.Add(trip / 2)), Error: trip / 2}
		}
	}
	if best == nil {
		r.facts.Unread = append(r.facts.Unread, Unread{sourceTime, "the answer makes no sense"})
	}
	r.facts.Clock = best
}

// scanTime bounds the search for the records of clients, of which a server may have few among many keys.
const scanTime = time.Second

// pauses reads the longest pause in the records of the prefix's clients. What it could not read, it names.
func (r *reader) pauses(ctx context.Context, prefix string) {
	begun, at := time.Now(), "0"
	for time.Since(begun) < scanTime {
		page, _ := r.read(ctx, sourceScan, "scan", at, "match", prefix+":client:*", "count", 1000).([]any)
		if len(page) != 2 {
			return
		}
		keys, _ := page[1].([]any)
		for _, key := range keys {
			said, _ := r.read(ctx, sourceRecords, "hmget", text(key), "pause", "app", "host", "pid").([]any)
			if len(said) != 4 {
				return
			}
			ms, _ := strconv.ParseInt(text(said[0]), 10, 64)
			if took := time.Duration(ms) * time.Millisecond; took > r.facts.Pause.Took {
				client := text(said[1]) + "@" + text(said[2]) + ":" + text(said[3])
				if plain, err := url.PathUnescape(client); err == nil {
					client = plain
				}
				r.facts.Pause = Pause{took, client}
			}
		}
		if at = text(page[0]); at == "0" {
			return
		}
	}
	r.facts.Unread = append(r.facts.Unread, Unread{sourceScan,
		"the server has too many keys to look at all of them in " + Brief(scanTime)})
}

func serverTime(reply any) (time.Time, bool) {
	words, _ := reply.([]any)
	if len(words) != 2 {
		return time.Time{}, false
	}
	seconds, err := strconv.ParseInt(text(words[0]), 10, 64)
	micros, bad := strconv.ParseInt(text(words[1]), 10, 64)
	return time.Unix(seconds, micros*1000), err == nil && bad == nil
}

// slow reads the scripts in the slow log.
func (r *reader) slow(ctx context.Context) {
	entries, _ := r.read(ctx, sourceSlow, "slowlog", "get", slowEntries).([]any)
	for _, entry := range entries {
		if one, ok := slowScript(entry); ok {
			r.facts.Slow = append(r.facts.Slow, one)
		}
	}
}

func slowScript(entry any) (SlowScript, bool) {
	parts, _ := entry.([]any)
	if len(parts) < 4 {
		return SlowScript{}, false
	}
	at, _ := parts[1].(int64)
	micros, _ := parts[2].(int64)
	words, _ := parts[3].([]any)
	if len(words) < 2 {
		return SlowScript{}, false
	}
	command, body := strings.ToLower(text(words[0])), text(words[1])
	// The server cuts long arguments, so only the beginning can be compared.
	begin, _, _ := strings.Cut(body, "... (")
	same := func(script string) bool { return len(begin) >= 64 && strings.HasPrefix(script, begin) }
	one := SlowScript{At: time.Unix(at, 0), Took: time.Duration(micros) * time.Microsecond}
	switch command {
	case "eval", "eval_ro":
		one.Ours = slices.ContainsFunc(script.All(), func(s *script.Script) bool { return same(s.Text) })
		body = strings.Join(strings.Fields(body), " ")
	case "evalsha", "evalsha_ro":
		one.Ours = slices.ContainsFunc(script.All(), func(s *script.Script) bool { return s.SHA1 == body })
	case "fcall", "fcall_ro":
	default:
		return SlowScript{}, false
	}
	if body == probeDigest || same(probeScript) {
		return SlowScript{}, false // what we do ourselves is not the server's everyday work
	}
	one.Script = command + " " + strings.ToValidUTF8(body[:min(len(body), 40)], "")
	return one, true
}

// load asks whether the default user may write what scripts write. The server judges by all rules
// of the user: categories, key patterns and selectors. It runs nothing.
func (r *reader) load(ctx context.Context) {
	key := keyOf(r.facts.Prefix, "doctor")
	// The log has PEXPIREAT where a script calls PEXPIRE.
	for _, write := range [][]any{{"hset", key, "f", "v"}, {"hdel", key, "f"}, {"pexpireat", key, 1}} {
		reply, err := r.do(ctx, append([]any{"acl", "dryrun", "default"}, write...)...)
		rule := r.facts.keys()
		switch answer := text(reply); {
		case err != nil:
			r.facts.Unread = append(r.facts.Unread, Unread{sourceRights, err.Error()})
			return
		case answer == "OK":
			continue
		case classify(answer) == refusedCommand:
			rule = "+" + text(write[0])
		}
		if !slices.Contains(r.facts.Unloaded, rule) {
			r.facts.Unloaded = append(r.facts.Unloaded, rule)
		}
	}
}

// defaultUser reads the answer to ACL GETUSER.
func defaultUser(reply any) *DefaultUser {
	var flags, keys any
	switch v := reply.(type) {
	case []any:
		for i := 0; i+1 < len(v); i += 2 {
			switch text(v[i]) {
			case "flags":
				flags = v[i+1]
			case "keys":
				keys = v[i+1]
			}
		}
	case map[any]any:
		flags, keys = v["flags"], v["keys"]
	default:
		return nil
	}
	words, _ := flags.([]any)
	return &DefaultUser{
		On:     slices.Contains(words, any("on")),
		NoPass: slices.Contains(words, any("nopass")), AllKeys: text(keys) == "~*",
	}
}

// localEnd reads the server's end of our connection in CLIENT INFO.
func localEnd(info string) bool {
	for word := range strings.FieldsSeq(info) {
		if end, ok := strings.CutPrefix(word, "laddr="); ok {
			host, _, err := net.SplitHostPort(end)
			return err == nil && Local(host) || strings.HasPrefix(end, "/")
		}
	}
	return false
}

// fields reads lines of NAME:VALUE.
func fields(reply string) map[string]string {
	if reply == "" {
		return nil
	}
	all := map[string]string{}
	for line := range strings.Lines(reply) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			all[name] = value
		}
	}
	return all
}

// pairs reads names and values, which RESP2 writes as a list and RESP3 as a map.
func pairs(reply any) map[string]string {
	all := map[string]string{}
	switch v := reply.(type) {
	case []any:
		for i := 0; i+1 < len(v); i += 2 {
			all[text(v[i])] = text(v[i+1])
		}
	case map[any]any:
		for name, value := range v {
			all[text(name)] = text(value)
		}
	default:
		return nil
	}
	return all
}

// text is an answer as text, "" for what is none.
func text(reply any) string {
	switch v := reply.(type) {
	case string:
		return v
	case int64:
		return strconv.FormatInt(v, 10)
	}
	return ""
}

// role is the server's role in the server's words, or "" if nothing says it.
func (f *Facts) role() string { return cmp.Or(f.Info["role"], f.Hello["role"]) }

// number is a field of INFO or a setting as a number.
func number(all map[string]string, name string) (int64, bool) {
	n, err := strconv.ParseInt(all[name], 10, 64)
	return n, err == nil
}

// Product names the server and its version, as in "redis 7.2.4".
func (f *Facts) Product() (product, version string) {
	if v := f.Info["valkey_version"]; v != "" {
		return "valkey", v
	}
	product = cmp.Or(f.Info["server_name"], f.Hello["server"], "redis")
	return product, cmp.Or(f.Info["redis_version"], f.Hello["version"])
}

// Role is primary or replica, or "" if nothing says it.
func (f *Facts) Role() string {
	switch role := f.role(); role {
	case "master":
		return "primary"
	case "slave":
		return "replica"
	default:
		return role
	}
}

// Mode is standalone, cluster or sentinel.
func (f *Facts) Mode() string {
	return cmp.Or(f.Info["server_mode"], f.Info["redis_mode"], f.Hello["mode"])
}

// percentile is the round trip that a part of the pings did not exceed.
func (f *Facts) percentile(part float64) time.Duration {
	if len(f.Pings) == 0 {
		return 0
	}
	i := int(part*float64(len(f.Pings))+0.999999) - 1
	return f.Pings[max(0, min(i, len(f.Pings)-1))]
}

// Latency is the median, the 95th percentile, and the longest of the round trips.
func (f *Facts) Latency() (half, most, longest time.Duration) {
	return f.percentile(0.5), f.percentile(0.95), f.percentile(1)
}

// Brief writes a duration with as many digits as a reader needs.
func Brief(d time.Duration) string {
	switch {
	case d < time.Millisecond:
		return d.Round(time.Microsecond).String()
	case d < 10*time.Millisecond:
		return d.Round(100 * time.Microsecond).String()
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < time.Minute:
		return d.Round(100 * time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}

// Count writes a number with its noun.
func Count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// megabytes writes a size.
func megabytes(n int64) string {
	if n < 1<<20 {
		return fmt.Sprintf("%d KiB", n>>10)
	}
	return fmt.Sprintf("%d MiB", n>>20)
}

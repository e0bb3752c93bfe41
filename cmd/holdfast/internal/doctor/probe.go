package doctor

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha1" // EVALSHA addresses scripts by SHA-1; nothing here relies on it for security.
	"encoding/hex"
	"errors"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
)

// Probe is what became of every command that Holdfast needs. They are tried, because the rules
// of a user do not tell what a proxy or a renamed command does.
type Probe struct {
	Prefix  string
	Cluster bool
	Missing []string // commands that the user may not run, as rules without the +
	Pushes  []string // the same, of commands that only pushes need
	Unknown []string // commands that the server does not know: renamed, or hidden by a proxy
	// UnknownPushes is the same, of commands that only pushes need.
	UnknownPushes []string
	Key           string // why the key was refused, or ""
	Channel       string // why the channel was refused, or ""
	Unheard       string // why a subscription got no answer, or ""
	Scripts       string // why no script can run, or ""
	Writes        string // why the server refuses writes for now, or ""
}

// probeScript tries the calls in ARGV on KEYS[1]. It answers those that were refused, each with
// the server's words. It writes only what it can remove: without HDEL and PEXPIRE the key would
// stay for ever.
const probeScript = `#!lua
local refused, bad = {}, {}
for _, line in ipairs(ARGV) do
  local words = {}
  for word in string.gmatch(line, '%S+') do
    if word == 'KEY' then word = KEYS[1] end
    words[#words + 1] = word
  end
  local name = words[1]
  if not (name == 'hset' and bad.hdel and bad.pexpire) then
    local reply = redis.pcall(unpack(words))
    if type(reply) == 'table' and reply.err and not bad[name] then
      bad[name] = true
      refused[#refused + 1] = name .. ' ' .. reply.err
    end
  end
end
return refused
`

// probeDigest is its name for EVALSHA.
var probeDigest = func() string {
	sum := sha1.Sum([]byte(probeScript))
	return hex.EncodeToString(sum[:])
}()

// hops is how many names are tried for one in a slot of this node of a Cluster.
const hops = 2000

// probe tries every right.
func (r *reader) probe(ctx context.Context, prefix string) {
	cluster := r.facts.Info["cluster_enabled"] == "1" || r.facts.Hello["mode"] == "cluster"
	p := &Probe{Prefix: prefix, Cluster: cluster}
	var err error
	for range hops {
		key := keyOf(prefix, "doctor-"+rand.Text())
		channel := key + ":doctor" // in a Cluster, it is in the slot of the key
		if err = r.tryScript(ctx, p, key, channel); moved(err) && r.err == nil {
			continue
		}
		if r.err == nil {
			p.sort(err)
			r.trySubscription(ctx, p, channel)
		}
		break
	}
	if r.err == nil && !moved(err) {
		r.facts.Probe = p
	}
}

// keyOf is the key of a lock that doctor names. A bad prefix was refused before.
func keyOf(prefix, name string) string {
	key, _ := holdfast.Key(prefix, name)
	return key
}

func moved(err error) bool { return err != nil && strings.HasPrefix(err.Error(), "MOVED ") }

// tryScript sends the script by its digest, and then as a text, as a client does.
func (r *reader) tryScript(ctx context.Context, p *Probe, key, channel string) error {
	tail := []any{1, key}
	for _, line := range calls(p.Cluster, channel) {
		tail = append(tail, line)
	}
	_, err := r.do(ctx, append([]any{"evalsha", probeDigest}, tail...)...)
	if err != nil && !p.lacks(right{rule: "evalsha"}, err.Error()) && !strings.HasPrefix(err.Error(), "NOSCRIPT") {
		return err
	}
	reply, err := r.do(ctx, append([]any{"eval", probeScript}, tail...)...)
	if err != nil && p.lacks(right{rule: "eval"}, err.Error()) {
		return nil
	}
	answers, _ := reply.([]any)
	for _, answer := range answers {
		name, why, _ := strings.Cut(text(answer), " ")
		p.refuse(name, why)
	}
	return err
}

// calls are the lines for the script. What removes the key comes first, to learn whether it is
// permitted, and last.
func calls(cluster bool, channel string) []string {
	clean := []string{"pexpire KEY 1000", "hdel KEY f"}
	lines := slices.Clone(clean)
	for _, one := range rightsOn(cluster) {
		if one.call != "" && !slices.Contains(clean, one.call) {
			lines = append(lines, strings.Replace(one.call, "CHANNEL", channel, 1))
		}
	}
	return append(lines, clean...)
}

// refuse notes that a call of the script was refused.
func (p *Probe) refuse(name, why string) {
	for _, one := range rightsOn(p.Cluster) {
		if first, _, _ := strings.Cut(one.call, " "); first != name {
			continue
		}
		switch classify(why) {
		case refusedKey:
			p.Key = why
		case refusedChannel:
			p.Channel = why
		case refusedCommand, unknownCommand:
			p.lacks(one, why)
		case refusedOther:
			if state.MatchString(why) {
				p.Writes = why
			}
		}
		return
	}
}

// lacks notes that a command was refused to this user, or that the server does not know it. It
// reports whether that is what the answer says.
func (p *Probe) lacks(one right, why string) bool {
	list := &p.Missing
	switch kind := classify(why); {
	case kind == refusedCommand && one.push:
		list = &p.Pushes
	case kind == refusedCommand:
	case kind == unknownCommand && one.push:
		list = &p.UnknownPushes
	case kind == unknownCommand:
		list = &p.Unknown
	default:
		return false
	}
	*list = append(*list, one.rule)
	return true
}

// sort decides what an error of the whole script means.
func (p *Probe) sort(err error) {
	switch {
	case err == nil:
	case classify(err.Error()) == refusedKey:
		p.Key = err.Error()
	case state.MatchString(err.Error()):
		p.Writes = err.Error()
	default:
		p.Scripts = err.Error()
	}
}

// trySubscription subscribes as a waiter does, on a connection of its own.
func (r *reader) trySubscription(ctx context.Context, p *Probe, channel string) {
	rule, subscribe := "subscribe", r.node.Client.Subscribe
	if p.Cluster {
		rule, subscribe = "ssubscribe", r.node.Client.SSubscribe
	}
	sub := subscribe(ctx, channel)
	defer sub.Close() //nolint:errcheck // the connection is not used again
	_, err := sub.ReceiveTimeout(ctx, 3*time.Second)
	p.subscribed(rule, err)
}

// subscribed decides what the answer to a subscription means.
func (p *Probe) subscribed(rule string, err error) {
	var refused redis.Error
	switch {
	case err == nil:
	case !errors.As(err, &refused), strings.HasPrefix(err.Error(), tooMany):
		p.Unheard = err.Error()
	case p.lacks(right{rule: rule, push: true}, err.Error()):
	case state.MatchString(err.Error()):
		p.Writes = cmp.Or(p.Writes, err.Error())
	case classify(err.Error()) == refusedChannel:
		p.Channel = err.Error()
	default: // such as MOVED to a node that is away
		p.Unheard = err.Error()
	}
}

// tooMany begins the answer to a connection that is one too many.
const tooMany = "ERR max number of clients"

// refusal is what a refusal is about.
type refusal int

const (
	refusedOther refusal = iota
	refusedCommand
	unknownCommand
	refusedKey
	refusedChannel
)

// The words of the servers. A user may have any name, so the sentence about commands, which
// contains it, is looked for first.
var (
	aboutCommand = regexp.MustCompile(`(?i)no permissions to run the|can't run this command`)
	notKnown     = regexp.MustCompile(`(?i)unknown (redis |server )?command`)
	aboutKey     = regexp.MustCompile(`(?i)access (a|one of the|at least one of the) keys?\b`)
	aboutChannel = regexp.MustCompile(`(?i)\bchannels?\b`)
	// state is a refusal of writes that may end.
	state = regexp.MustCompile(`^(LOADING|READONLY|MASTERDOWN|MISCONF|OOM|BUSY|NOREPLICAS|CLUSTERDOWN|TRYAGAIN)\b`)
)

func classify(why string) refusal {
	switch {
	case aboutCommand.MatchString(why):
		return refusedCommand
	case notKnown.MatchString(why):
		return unknownCommand
	case aboutKey.MatchString(why):
		return refusedKey
	case aboutChannel.MatchString(why):
		return refusedChannel
	}
	return refusedOther
}

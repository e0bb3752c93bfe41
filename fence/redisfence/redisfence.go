// Package redisfence refuses late writers to data in Redis or Valkey. One script checks the token and
// runs the commands, so nothing comes between.
//
//	guard := redisfence.Guard{Store: goredis.New(rdb)} // the store that the locks use, or another one
//	…
//	err = guard.Do(ctx, "invoice:42", lease.Token(),
//		redisfence.Write("HSET", "invoice:42", "paid", "yes"))
//
// In a Cluster, the resource and the keys must be in one slot. A key is in one slot with the resource
// of the same name; other keys need a common hash tag, as in {invoice:42}:lines.
package redisfence

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha1" // EVALSHA addresses scripts by SHA-1; nothing relies on it for security.
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/script"
	"github.com/holdfast-go/holdfast/store"
)

// Runner runs a script. The stores of Holdfast for one server, Sentinel and Cluster are Runners. A
// quorum is not one resource, and refuses.
type Runner interface {
	// Run and Group are as in store.Store.
	Run(ctx context.Context, s *script.Script, keys, args []string) (string, error)
	Group(key string) string
}

// DefaultPrefix is the prefix of a [Guard] that names none.
const DefaultPrefix = "fence:"

// Guard keeps the highest token of each resource in a key of its own, and refuses writes under a
// lower one. The zero value needs a Store. Its methods may be called from many goroutines.
//
// The key has no TTL: a guard that forgets accepts the oldest writer. So the server must not evict
// it (maxmemory-policy noeviction). For a resource that is gone, delete the key as [Guard.Reset]
// does.
type Guard struct {
	Store Runner
	// Prefix begins the names of the guard's keys: PREFIX{RESOURCE}, or PREFIX and the resource if
	// that has a hash tag. So a and {a} are one resource. Default: [DefaultPrefix].
	Prefix string
}

// Command is a command that writes: its name, the keys, then the other arguments.
type Command struct {
	Name string
	Keys []string
	Args []string
}

// Write is a [Command] with one key.
func Write(name, key string, args ...string) Command {
	return Command{Name: name, Keys: []string{key}, Args: args}
}

// CommandError says that the server refused a command. The commands before it took effect, and
// those behind it did not run.
type CommandError struct {
	Number  int // of the command: 1 is the first
	Name    string
	Message string // of the server
}

func (e *CommandError) Error() string {
	return fmt.Sprintf("redisfence: command %d (%s): %s", e.Number, e.Name, e.Message)
}

// mostWords is how many words a [Command] may have: Lua passes at most 8,000 values to a call, and fails
// beyond that, in the middle of the commands.
const mostWords = 7000

// width is how many digits a stored token has, so that tokens can be compared as text: numbers in
// a script are exact only up to 2^53.
const width = 20

// The scripts. KEYS[1] is the guard's key: a hash with the token, and the last calls with their answers, the newest
// first: 340 bytes of them, which are 20, or fewer if some were refused. A call may be sent twice; the second time gets
// the answer of the first, also after a newer token. If that may be forgotten, ARGV[3] keeps it from running again.
var (
	writeScript = define("fence_write", `#!lua
local call = redis.call
local token, id, again = ARGV[1], ARGV[2], ARGV[3] == 'again'
local seen = call('HMGET', KEYS[1], 'token', 'calls')
local calls = seen[2] or ''
if seen[1] then
if #seen[1] ~= #token then return redis.error_reply('FORMAT the key of the guard has something else') end
local _, found = string.find(calls, id .. ' ', 1, true)
local before = found and string.match(calls, '^([^\n]*)\n', found + 1)
if before then return before end
if again and #calls == 340 then return 'unknown' end
if seen[1] > token then return 'stale ' .. seen[1] end
end
call('HSET', KEYS[1], 'token', token)
local answer, at, key = 'ok', 4, 2
for n = 1, tonumber(ARGV[at]) do
local words = {ARGV[at + 1]}
local keys, args = tonumber(ARGV[at + 2]), tonumber(ARGV[at + 3])
for i = 1, keys do words[#words + 1] = KEYS[key]; key = key + 1 end
for i = 1, args do words[#words + 1] = ARGV[at + 3 + i] end
at = at + 3 + args
local done = redis.pcall(unpack(words))
if type(done) == 'table' and done.err then
answer = string.sub(string.gsub('failed ' .. n .. ' ' .. done.err, '\n', ' '), 1, 200)
break
end
end
-- The token again: a command, such as FLUSHDB, may have removed it.
call('HSET', KEYS[1], 'token', token, 'calls', string.sub(id .. ' ' .. answer .. '\n' .. calls, 1, 340))
return answer
`)
	// A server that is full may be asked, and may forget. As it is not declared to write nothing, a replica refuses it.
	readScript = define("fence_read", `#!lua flags=allow-oom
return redis.call('HGET', KEYS[1], 'token') or '0'
`)
	resetScript = define("fence_reset", `#!lua flags=allow-oom
redis.call('DEL', KEYS[1])
return 'ok'
`)
)

func define(name, text string) *script.Script {
	sum := sha1.Sum([]byte(text))
	return &script.Script{Name: name, Text: text, SHA1: hex.EncodeToString(sum[:]), Repeats: name == "fence_read"}
}

// Do shows token to the resource and runs the commands, in one step. If the resource has seen a
// higher token, nothing runs, and the error is a [*fence.StaleError].
//
// The commands run one after the other. If the server refuses one, the error is a
// [*CommandError]: those before it took effect, because Redis does not roll back. If the server
// refuses the whole step, the error is a *store.ServerError, and nothing has changed. After any
// other error the outcome is unknown. Do it again under the same lease: an equal token is
// accepted, so the commands must be safe to repeat. If only the
// connection breaks, Do sends the step once more, and it takes effect once. If so many other calls came between that
// the server cannot know whether it ran, the error is that of the broken connection.
//
// If keys are in different slots of a Cluster, a command has more than 7,000 words, or a key is the guard's
// own, the error is a [fence.ErrInvalid], and nothing was sent.
func (g Guard) Do(ctx context.Context, resource string, token uint64, commands ...Command) error {
	keys, err := g.keys(resource, token, commands)
	if err != nil {
		return err
	}
	args := []string{fmt.Sprintf("%0*d", width, token), rand.Text()[:13], "first", strconv.Itoa(len(commands))}
	for _, c := range commands {
		args = append(args, c.Name, strconv.Itoa(len(c.Keys)), strconv.Itoa(len(c.Args)))
		args = append(args, c.Args...)
	}
	answer, err := g.write(ctx, keys, args)
	if err != nil {
		return fmt.Errorf("redisfence: writing %s: %w", resource, err)
	}
	word, rest, _ := strings.Cut(answer, " ")
	switch word {
	case "ok":
		return nil
	case "stale":
		seen, err := parse(rest)
		if err != nil {
			return err
		}
		return &fence.StaleError{Resource: resource, Token: token, Seen: seen}
	case "failed":
		number, message, _ := strings.Cut(rest, " ")
		if n, err := strconv.Atoi(number); err == nil && 0 < n && n <= len(commands) {
			return &CommandError{Number: n, Name: commands[n-1].Name, Message: message}
		}
	}
	return fmt.Errorf("redisfence: the script answered %q", answer)
}

// write sends the step, and once more if its connection broke: the guard's key has the answers to the
// last calls. No store repeats it by itself, because a copy that arrives after many calls would take
// effect again.
func (g Guard) write(ctx context.Context, keys, args []string) (string, error) {
	definite := func(err error) bool {
		var refused *store.ServerError
		return errors.As(err, &refused) || errors.Is(err, store.ErrNotSent)
	}
	answer, err := g.Store.Run(ctx, writeScript, keys, args)
	if err == nil || definite(err) || ctx.Err() != nil {
		return answer, err
	}
	args = slices.Clone(args) // the store may still have the first
	args[2] = "again"
	second, failed := g.Store.Run(ctx, writeScript, keys, args)
	if definite(failed) || second == "unknown" {
		return "", err // the outcome of the first is still unknown
	}
	return second, failed
}

// keys are those of the script: the guard's, and those of the commands.
func (g Guard) keys(resource string, token uint64, commands []Command) ([]string, error) {
	if err := fence.Check(resource, token); err != nil {
		return nil, err
	}
	own, err := g.key(resource)
	if err != nil {
		return nil, err
	}
	keys, group := []string{own}, g.Store.Group(own)
	for _, c := range commands {
		switch words := 1 + len(c.Keys) + len(c.Args); {
		case c.Name == "":
			return nil, fmt.Errorf("%w: a Command needs a Name", fence.ErrInvalid)
		case words > mostWords:
			return nil, fmt.Errorf("%w: %s has %d words, and a Command may have %d: split it into several",
				fence.ErrInvalid, c.Name, words, mostWords)
		}
		// An argument may be a key, too, as the second one of RENAME.
		if slices.Contains(c.Keys, own) || slices.Contains(c.Args, own) {
			return nil, fmt.Errorf("%w: %s has the guard's own key %q: use Reset to forget its token",
				fence.ErrInvalid, c.Name, own)
		}
		for _, key := range c.Keys {
			if g.Store.Group(key) != group {
				return nil, fmt.Errorf("%w: %q is in another slot of the Cluster than the guard's key %q: "+
					"give both the same hash tag, such as {%s}", fence.ErrInvalid, key, own, tag(resource))
			}
			keys = append(keys, key)
		}
	}
	return keys, nil
}

// key is the guard's key for a resource. It is in the slot of a key that is named like the resource.
func (g Guard) key(resource string) (string, error) {
	prefix := cmp.Or(g.Prefix, DefaultPrefix)
	switch {
	case g.Store == nil:
		return "", fmt.Errorf("%w: a Guard needs a Store", fence.ErrInvalid)
	case strings.ContainsAny(prefix, "{}"):
		return "", fmt.Errorf("%w: the prefix %q has a brace, which would decide the slot", fence.ErrInvalid, prefix)
	case tag(resource) == resource:
		return prefix + "{" + resource + "}", nil
	}
	return prefix + resource, nil
}

// tag is what decides the slot of a key: the text in its first braces, or all of it.
func tag(key string) string {
	if _, rest, ok := strings.Cut(key, "{"); ok {
		if inner, _, ok := strings.Cut(rest, "}"); ok && inner != "" {
			return inner
		}
	}
	return key
}

func parse(text string) (uint64, error) {
	seen, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("redisfence: the guard's token %q is not a number", text)
	}
	return seen, nil
}

// Raise implements [fence.Memory]: it is Do without commands. Call it before you read what a write
// depends on.
func (g Guard) Raise(ctx context.Context, resource string, token uint64) error {
	return g.Do(ctx, resource, token)
}

// Seen returns the highest token that the resource was shown, or 0.
func (g Guard) Seen(ctx context.Context, resource string) (uint64, error) {
	answer, err := g.run(ctx, readScript, resource)
	if err != nil {
		return 0, err
	}
	return parse(answer)
}

// Reset makes the resource forget its token. It is for an operator, if the lock gives lower tokens
// than before, because its server lost the data and then the clock was set back. Stop all writers
// of the resource first: until the next check, the oldest of them would be accepted.
//
// After an error the outcome is unknown; a repetition is safe.
func (g Guard) Reset(ctx context.Context, resource string) error {
	_, err := g.run(ctx, resetScript, resource)
	return err
}

func (g Guard) run(ctx context.Context, s *script.Script, resource string) (string, error) {
	key, err := g.key(resource)
	if err != nil {
		return "", err
	}
	return g.Store.Run(ctx, s, []string{key}, nil)
}

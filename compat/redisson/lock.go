package redisson

import (
	"context"
	"encoding/json"
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast/internal/neighbour"
	"github.com/holdfast-go/holdfast/script"
)

// lock is the wire of RLock: a hash with one field, the holder, whose value counts its entries.
// The key has the TTL of the lease.
//
// An attempt enters once. The count stays 1, because [holdfast.Reentrant] counts in the process.
type lock struct{ *base }

// Traits implements [neighbour.Wire].
func (l *lock) Traits() neighbour.Traits {
	return neighbour.Traits{
		Neighbour: "Redisson's RLock",
		Modes:     []neighbour.Mode{neighbour.Exclusive},
		Hint:      "Config.Kind chooses the kind of lock",
		Commands: []string{
			"exists KEY", "hexists KEY f", "hset KEY f 1", "hdel KEY f", "hlen KEY", "hkeys KEY", "hgetall KEY",
			"del KEY",
			"pttl KEY", "pexpire KEY 1", "set KEY 1 px 1", l.publishes(),
		},
	}
}

// publishes is the command of a release, for the check of permissions.
func (b *base) publishes() string {
	if b.Store.Sharded() && b.cfg.Sharded != Off {
		return "spublish CHANNEL 0"
	}
	return "publish CHANNEL 0"
}

// Channel implements [neighbour.Wire].
func (l *lock) Channel(a neighbour.Attempt) string { return prefixed(lockChannel, l.key(a.Name)) }

const lockChannel = "redisson_lock__channel"

// theHolder finds the one field of a lock's hash. A hash that has none of the form UUID:THREAD, or more than one, is no
// lock of this kind, so it is refused like a key of another type. The number of a thread may be any that Java's caller
// passes.
const theHolder = `
local wrong = redis.error_reply('WRONGTYPE The hash is not a lock of Redisson of this kind')
local function the_holder(key)
  local field = redis.call('HLEN', key) == 1 and redis.call('HKEYS', key)[1]
  return field and string.find(field, '^[^:]+:%-?%d+~?%d*$') and field
end
`

var acquireLock = neighbour.NewScript("acquire", neighbour.Once, `#!lua
`+acquiring+theHolder+`
if redis.call('HEXISTS', key, holder) == 1 then
  redis.call('PEXPIRE', key, ttl)
  return 'granted'
end
if redis.call('EXISTS', key) == 0 then
  redis.call('HSET', key, holder, '1')
  redis.call('PEXPIRE', key, ttl)
  return 'granted'
end
local other = the_holder(key)
if not other then return wrong end
return 'busy ' .. redis.call('PTTL', key) .. ' ' .. other`)

// Acquire implements [neighbour.Wire].
func (l *lock) Acquire(ctx context.Context, a neighbour.Attempt, _ bool) (neighbour.Outcome, error) {
	return l.acquire(ctx, acquireLock, a, []string{l.key(a.Name)})
}

// Redisson looks at the memory of a release first, because its threads use their field again. The message
// is sent only if the key is gone with its last field.
var releaseLock = neighbour.NewScript("release", neighbour.Once, `#!lua flags=allow-oom
`+releasing+`
if redis.call('HDEL', key, holder) == 0 then return gone() end
released()
if redis.call('EXISTS', key) == 0 then redis.call(verb, KEYS[2], '0') end
return 'released'`)

// Release implements [neighbour.Wire].
func (l *lock) Release(ctx context.Context, a neighbour.Attempt) (held bool, err error) {
	return l.release(ctx, releaseLock, a, []string{l.key(a.Name), l.Channel(a)})
}

// Cancel implements [neighbour.Wire]: there is no queue.
func (l *lock) Cancel(ctx context.Context, a neighbour.Attempt) (found bool, err error) {
	return l.Release(ctx, a)
}

// renewing begins a script that renews. A key of another kind is a hold that is gone. Any other refusal is no answer.
const renewing = `
local answer = ''
local function refused(found) return type(found) == 'table' and not string.find(found.err, '^WRONGTYPE') end
`

var renewLock = neighbour.NewScript("renew", neighbour.Once, `#!lua flags=allow-oom
`+renewing+`
for i, key in ipairs(KEYS) do
  local holder, ttl = ARGV[2 * i - 1], tonumber(ARGV[2 * i])
  local found = redis.pcall('HEXISTS', key, holder)
  if refused(found) then return found end
  if found == 1 then
    local left = redis.call('PTTL', key)
    if left < ttl then redis.call('PEXPIRE', key, ttl) end
    answer = answer .. '1'
  else
    answer = answer .. '0'
  end
end
return answer`)

// Renew implements [neighbour.Wire].
func (l *lock) Renew(ctx context.Context, holds []neighbour.Attempt) ([]neighbour.Renewal, error) {
	return l.renew(ctx, renewLock, holds, func(a neighbour.Attempt, field string) ([]string, string) {
		return []string{l.key(a.Name)}, field
	})
}

var keepLock = neighbour.NewScript("release_after", neighbour.Once, `#!lua flags=allow-oom
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then return 'gone' end
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return 'kept'`)

// Keep implements [neighbour.Wire].
func (l *lock) Keep(ctx context.Context, a neighbour.Attempt, left time.Duration) (held bool, err error) {
	return l.keep(ctx, keepLock, a, left)
}

var inspectLock = neighbour.NewScript("inspect", neighbour.Repeats, `#!lua flags=no-writes
`+theHolder+`
if redis.call('EXISTS', KEYS[1]) == 1 and not the_holder(KEYS[1]) then return wrong end
return cjson.encode({redis.call('PTTL', KEYS[1]), redis.call('HGETALL', KEYS[1])})`)

// Inspect implements [neighbour.Wire].
func (l *lock) Inspect(ctx context.Context, name string) (neighbour.State, error) {
	return l.inspectHash(ctx, inspectLock, name, lockState)
}

// inspectHash reads a lock that is a hash. state says what its time and its fields mean.
func (b *base) inspectHash(ctx context.Context, s *script.Script, name string,
	state func(ttl time.Duration, fields []string) neighbour.State,
) (neighbour.State, error) {
	answer, err := b.Run(ctx, s, []string{b.key(name)}, nil)
	if err != nil {
		return neighbour.State{}, err
	}
	ttl, fields, err := parseHash(s, answer)
	if err != nil {
		return neighbour.State{}, err
	}
	return state(ttl, fields), nil
}

// lockState is what a hash of holders says.
func lockState(ttl time.Duration, fields []string) neighbour.State {
	state := neighbour.State{Absent: len(fields) == 0}
	for i := 0; i+1 < len(fields); i += 2 {
		entries, _ := strconv.Atoi(fields[i+1])
		state.Holders = append(state.Holders, neighbour.Holder{
			ID: attemptOf(fields[i]), Mode: neighbour.Exclusive, Permits: 1, Entries: entries, Left: ttl,
		})
	}
	return state
}

// parseHash reads the remaining time of a key and the fields of its hash.
func parseHash(s *script.Script, answer string) (ttl time.Duration, fields []string, err error) {
	var parts []json.RawMessage
	if err := json.Unmarshal([]byte(answer), &parts); err != nil || len(parts) != 2 {
		return 0, nil, unexpected(s, answer)
	}
	return hashOf(s, answer, parts)
}

func hashOf(s *script.Script, answer string, parts []json.RawMessage) (ttl time.Duration, fields []string, err error) {
	var ms float64
	if json.Unmarshal(parts[0], &ms) != nil {
		return 0, nil, unexpected(s, answer)
	}
	if string(parts[1]) != "{}" { // how cjson writes an empty list
		if json.Unmarshal(parts[1], &fields) != nil {
			return 0, nil, unexpected(s, answer)
		}
	}
	return neighbour.Left(ms), fields, nil
}

var evictLock = neighbour.NewScript("evict", neighbour.Once, `#!lua flags=allow-oom
`+theHolder+`
if redis.call('EXISTS', KEYS[1]) == 0 then return '0' end
if not the_holder(KEYS[1]) then return wrong end
redis.call('DEL', KEYS[1])
redis.call(ARGV[1], KEYS[2], '0')
return '1'`)

// Evict implements [neighbour.Wire]: it is forceUnlock.
func (l *lock) Evict(ctx context.Context, name string, token uint64) (ended int, err error) {
	return l.evict(ctx, evictLock, token, []string{l.key(name), l.Channel(neighbour.Attempt{Name: name})})
}

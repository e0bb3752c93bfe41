package redisson

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/neighbour"
)

// readWrite is the wire of RReadWriteLock: a hash with a field mode, a field for each reader, and
// one for the writer. Each reader has a key of its own with the TTL of its lease. When a reader
// leaves, Redisson looks only at these keys to see which other readers live. So they are renewed
// together with the hash.
//
// A Mutex of such a store is the writer, as RWMutex.Lock is.
type readWrite struct{ *base }

const (
	readWriteChannel = "redisson_rwlock"
	readerTimeout    = ":rwlock_timeout"
	writerSuffix     = ":write"
)

// Traits implements [neighbour.Wire].
func (rw *readWrite) Traits() neighbour.Traits {
	return neighbour.Traits{
		Neighbour: "Redisson's RReadWriteLock",
		Modes:     []neighbour.Mode{neighbour.Exclusive, neighbour.Shared},
		Hint:      "Config.Kind chooses the kind of lock",
		Commands: []string{
			"exists KEY", "hexists KEY f", "hget KEY f", "hset KEY f 1", "hdel KEY f", "hlen KEY", "hgetall KEY",
			"del KEY", "pttl KEY", "pexpire KEY 1", "set KEY 1 px 1", rw.publishes(),
		},
	}
}

// Channel implements [neighbour.Wire].
func (rw *readWrite) Channel(a neighbour.Attempt) string {
	return prefixed(readWriteChannel, rw.key(a.Name))
}

// own is the key of a reader alone. A holder without a field has none, and gets nothing.
func (rw *readWrite) own(a neighbour.Attempt) string {
	field, _ := holder(a)
	return suffixed(rw.key(a.Name), field) + readerTimeout + ":1"
}

// longer lets a key live for at least so long.
const longer = `
local function longer(key, ttl)
  if redis.call('PTTL', key) < tonumber(ttl) then redis.call('PEXPIRE', key, ttl) end
end
`

// isReadWrite says what a hash is. One without a mode, or without a holder, is another lock, or other data: it is
// refused like a key of another type. Redisson would write into it.
const isReadWrite = `
local wrong = redis.error_reply('WRONGTYPE The hash is not a lock of Redisson of this kind')
local function is_lock(key)
  local mode = redis.call('HGET', key, 'mode')
  return (mode == 'read' or mode == 'write') and redis.call('HLEN', key) > 1
end
`

var acquireRead = neighbour.NewScript("acquire", neighbour.Once, `#!lua
`+acquiring+longer+isReadWrite+`
local own = KEYS[2]
local mode = redis.call('HGET', key, 'mode')
if redis.call('HEXISTS', key, holder) == 1 or mode == 'read' then
  redis.call('SET', own, '1', 'PX', ttl)
  redis.call('HSET', key, holder, '1')
  longer(key, ttl)
  return 'granted'
end
if redis.call('EXISTS', key) == 0 then
  redis.call('SET', own, '1', 'PX', ttl)
  redis.call('HSET', key, 'mode', 'read', holder, '1')
  redis.call('PEXPIRE', key, ttl)
  return 'granted'
end
if not is_lock(key) then return wrong end
return 'busy ' .. redis.call('PTTL', key) .. ' -'`)

var acquireWrite = neighbour.NewScript("acquire", neighbour.Once, `#!lua
`+acquiring+isReadWrite+`
holder = holder .. ':write'
if redis.call('HEXISTS', key, holder) == 1 then
  redis.call('PEXPIRE', key, ttl)
  return 'granted'
end
if redis.call('EXISTS', key) == 0 then
  redis.call('HSET', key, 'mode', 'write', holder, '1')
  redis.call('PEXPIRE', key, ttl)
  return 'granted'
end
if not is_lock(key) then return wrong end
return 'busy ' .. redis.call('PTTL', key) .. ' -'`)

// Acquire implements [neighbour.Wire].
func (rw *readWrite) Acquire(ctx context.Context, a neighbour.Attempt, _ bool) (neighbour.Outcome, error) {
	if a.Mode == neighbour.Shared {
		return rw.acquire(ctx, acquireRead, a, []string{rw.key(a.Name), rw.own(a)})
	}
	return rw.acquire(ctx, acquireWrite, a, []string{rw.key(a.Name)})
}

// A writer leaves the hash to its readers, if Java has some under it, and tells the others that
// they may read: Redisson does not, so that they wait for the TTL. '1' wakes the threads of Java
// that wait at that instant, and is lost on one that is about to. '0' is kept for one of these.
//
// For a reader this is Redisson's own rule: the hash lives as long as the longest key of its
// readers. It is deleted if none has one. Of a reader with thousands of entries the last thousand count, so that no
// value in a hash keeps the server busy.
var releaseReadWrite = neighbour.NewScript("release", neighbour.Once, `#!lua flags=allow-oom
`+releasing+`
local channel, own, prefix = KEYS[2], KEYS[3], ARGV[5]
if redis.call('HDEL', key, holder .. ':write') == 1 then
  released()
  if redis.call('HLEN', key) == 1 then
    redis.call('DEL', key)
  else
    redis.call('HSET', key, 'mode', 'read')
  end
  redis.call(verb, channel, '1')
  redis.call(verb, channel, '0')
  return 'released'
end
if redis.call('HDEL', key, holder) == 0 then return gone() end
released()
redis.call('DEL', own)
if redis.call('HLEN', key) > 1 then
  local most = -3
  local fields = redis.call('HGETALL', key)
  for n = 1, #fields, 2 do
    local entries, each = math.min(tonumber(fields[n + 1]) or 0, 1e9), prefix .. ':' .. fields[n] .. ':rwlock_timeout:'
    for i = entries, math.max(entries - 999, 1), -1 do
      most = math.max(most, redis.call('PTTL', each .. string.format('%.0f', i)))
    end
  end
  if most > 0 then
    redis.call('PEXPIRE', key, most)
    return 'released'
  end
  if redis.call('HGET', key, 'mode') == 'write' then return 'released' end
end
redis.call('DEL', key)
redis.call(verb, channel, '0')
return 'released'`)

// Release implements [neighbour.Wire].
func (rw *readWrite) Release(ctx context.Context, a neighbour.Attempt) (held bool, err error) {
	key := rw.key(a.Name)
	return rw.release(ctx, releaseReadWrite, a, []string{key, rw.Channel(a), rw.own(a)}, readersOf(key))
}

// readersOf is how the keys of the readers begin, before the colon.
func readersOf(key string) string { return strings.TrimSuffix(suffixed(key, ""), ":") }

// Cancel implements [neighbour.Wire]: there is no queue.
func (rw *readWrite) Cancel(ctx context.Context, a neighbour.Attempt) (found bool, err error) {
	return rw.Release(ctx, a)
}

// The lease of a reader has ended with its own key, although other readers keep the hash.
var renewReadWrite = neighbour.NewScript("renew", neighbour.Once, `#!lua flags=allow-oom
`+longer+renewing+`
for i = 1, #KEYS / 2 do
  local key, own, holder, ttl = KEYS[2 * i - 1], KEYS[2 * i], ARGV[2 * i - 1], ARGV[2 * i]
  local one, found = '0', redis.pcall('HEXISTS', key, holder .. ':write')
  if refused(found) then return found end
  if found == 1 then
    longer(key, ttl)
    one = '1'
  elseif redis.pcall('HEXISTS', key, holder) == 1 and redis.call('EXISTS', own) == 1 then
    longer(own, ttl)
    longer(key, ttl)
    one = '1'
  end
  answer = answer .. one
end
return answer`)

// Renew implements [neighbour.Wire].
func (rw *readWrite) Renew(ctx context.Context, holds []neighbour.Attempt) ([]neighbour.Renewal, error) {
	return rw.renew(ctx, renewReadWrite, holds, func(a neighbour.Attempt, field string) ([]string, string) {
		return []string{rw.key(a.Name), rw.own(a)}, field
	})
}

var keepReadWrite = neighbour.NewScript("release_after", neighbour.Once, `#!lua flags=allow-oom
if redis.call('HEXISTS', KEYS[1], ARGV[1] .. ':write') == 0 then return 'gone' end
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return 'kept'`)

// Keep implements [neighbour.Wire], for a writer. The library keeps a reader by a renewal.
func (rw *readWrite) Keep(ctx context.Context, a neighbour.Attempt, left time.Duration) (held bool, err error) {
	return rw.keep(ctx, keepReadWrite, a, left)
}

// isHeld checks all fields, too.
const isHeld = isReadWrite + `
local function holders(key)
  if redis.call('EXISTS', key) == 0 then return {} end
  if not is_lock(key) then return end
  local fields = redis.call('HKEYS', key)
  for _, field in ipairs(fields) do
    local reader, writer = '^[^:]+:%-?%d+~?%d*$', '^[^:]+:%-?%d+~?%d*:write$'
    if field ~= 'mode' and not string.find(field, reader) and not string.find(field, writer) then return end
  end
  return fields
end
`

var inspectReadWrite = neighbour.NewScript("inspect", neighbour.Repeats, `#!lua flags=no-writes
`+isHeld+`
if not holders(KEYS[1]) then return wrong end
return cjson.encode({redis.call('PTTL', KEYS[1]), redis.call('HGETALL', KEYS[1])})`)

// Inspect implements [neighbour.Wire]. What is left of a lock is what is left of its hash.
func (rw *readWrite) Inspect(ctx context.Context, name string) (neighbour.State, error) {
	return rw.inspectHash(ctx, inspectReadWrite, name, readWriteState)
}

func readWriteState(ttl time.Duration, fields []string) neighbour.State {
	state := neighbour.State{Absent: len(fields) == 0}
	for i := 0; i+1 < len(fields); i += 2 {
		if fields[i] == "mode" {
			continue
		}
		field, writes := strings.CutSuffix(fields[i], writerSuffix)
		h := neighbour.Holder{ID: attemptOf(field), Mode: neighbour.Shared, Permits: 1, Left: ttl}
		if writes {
			h.Mode = neighbour.Exclusive
		}
		h.Entries, _ = strconv.Atoi(fields[i+1])
		state.Holders = append(state.Holders, h)
	}
	return state
}

var evictReadWrite = neighbour.NewScript("evict", neighbour.Once, `#!lua flags=allow-oom
`+isHeld+`
local fields = holders(KEYS[1])
if not fields then return wrong end
if #fields == 0 then return '0' end
local said = '0'
if redis.call('HGET', KEYS[1], 'mode') == 'write' then said = '1' end
redis.call('DEL', KEYS[1])
redis.call(ARGV[1], KEYS[2], said)
if said == '1' then redis.call(ARGV[1], KEYS[2], '0') end
return tostring(#fields - 1)`)

// Evict implements [neighbour.Wire]: forceUnlock of readers and of the writer.
func (rw *readWrite) Evict(ctx context.Context, name string, token uint64) (ended int, err error) {
	return rw.evict(ctx, evictReadWrite, token, []string{rw.key(name), rw.Channel(neighbour.Attempt{Name: name})})
}

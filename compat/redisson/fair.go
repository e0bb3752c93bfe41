package redisson

import (
	"context"
	"encoding/json"
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast/internal/neighbour"
	"github.com/holdfast-go/holdfast/internal/wire"
)

// fair is the wire of RFairLock: an RLock with a list of the waiters, and a sorted set of the
// times at which each of them is thought dead. Each waiter has a channel of its own. The
// arithmetic on the times is Redisson's, because its clients do the same sums.
//
// Every script first removes waiters from the front whose time has passed. It uses the server's
// clock. Java uses its own, so a Java program whose clock is wrong moves these times.
type fair struct{ lock }

const (
	fairQueue   = "redisson_lock_queue"
	fairTimeout = "redisson_lock_timeout"
)

// Traits implements [neighbour.Wire].
func (f *fair) Traits() neighbour.Traits {
	t := f.lock.Traits()
	t.Neighbour = "Redisson's RFairLock"
	t.Commands = append(t.Commands, "time", "lindex KEY 0", "lpos KEY v", "lpop KEY", "rpush KEY v", "lrem KEY 0 v",
		"lrange KEY 0 -1", "zscore KEY m", "zadd KEY 1 m", "zrem KEY m", "zincrby KEY 1 m", "zrange KEY 0 -1")
	return t
}

// Channel implements [neighbour.Wire]. Whoever only watches the lock has no channel.
func (f *fair) Channel(a neighbour.Attempt) string {
	field, err := holder(a)
	if err != nil {
		return ""
	}
	return f.lock.Channel(a) + ":" + field
}

// keys are those of a lock: its own, the queue, the times.
func (f *fair) keys(name string) []string {
	key := f.key(name)
	return []string{key, prefixed(fairQueue, key), prefixed(fairTimeout, key)}
}

// wait is for how long a waiter counts as alive.
func (f *fair) wait() string { return wire.Millis(f.cfg.FairWait) }

// purge removes the dead waiters from the front. One without a time is dead too: no client
// leaves one there.
const purge = clock + `
local key, queue, times = KEYS[1], KEYS[2], KEYS[3]
local function purge()
  while true do
    local first = redis.call('LINDEX', queue, 0)
    if not first then return end
    local score = redis.call('ZSCORE', times, first)
    if score and tonumber(score) > now then return first, tonumber(score) end
    redis.call('ZREM', times, first)
    redis.call('LPOP', queue)
  end
end
local function int(n) return string.format('%.0f', n) end
`

// The lock is granted if it is free and nobody else is first. All waiters behind are then due
// earlier by the time that the new holder no longer waits.
//
// If the lock is free and somebody else is first, that waiter may be dead. It counts as dead at
// its time, and no message will tell. Redisson asks without a pause until then; here the waiter
// asks again after a second, or at that time.
var acquireFair = neighbour.NewScript("acquire", neighbour.Once, `#!lua
`+acquiring+theHolder+purge+`
local wait, joins = tonumber(ARGV[3]), ARGV[4] == '1'
if redis.call('HEXISTS', key, holder) == 1 then
  redis.call('PEXPIRE', key, ttl)
  return 'granted'
end
local first, due = purge()
local free = redis.call('EXISTS', key) == 0
if free and (not first or first == holder) then
  if first then redis.call('LPOP', queue) end
  redis.call('ZREM', times, holder)
  for _, other in ipairs(redis.call('ZRANGE', times, 0, -1)) do redis.call('ZINCRBY', times, int(-wait), other) end
  redis.call('HSET', key, holder, '1')
  redis.call('PEXPIRE', key, ttl)
  return 'granted'
end
local other = free and '-' or the_holder(key)
if not other then return wrong end
local left = redis.call('PTTL', key)
if joins and not redis.call('ZSCORE', times, holder) then
  local base = math.max(left, 0)
  local last = redis.call('LINDEX', queue, -1)
  if last and last ~= holder then
    base = tonumber(redis.call('ZSCORE', times, last) or now + base) - now
  end
  redis.call('ZADD', times, int(now + base + wait), holder)
  redis.call('RPUSH', queue, holder)
end
if free then left = math.min(math.max((due or now) - now, 1), 1000) end
local place = redis.call('LPOS', queue, holder)
return 'busy ' .. int(left) .. ' ' .. other .. ' ' .. (place and place + 1 or 0)`)

// Acquire implements [neighbour.Wire].
func (f *fair) Acquire(ctx context.Context, a neighbour.Attempt, wait bool) (neighbour.Outcome, error) {
	joins := "0"
	if wait {
		joins = "1"
	}
	return f.acquire(ctx, acquireFair, a, f.keys(a.Name), f.wait(), joins)
}

// A waiter that gives up makes those behind it due earlier, as Redisson does. If the lock is
// free, the first waiter is told: the one that gave up may have been told before.
var releaseFair = neighbour.NewScript("release", neighbour.Once, `#!lua flags=allow-oom
`+releasing+purge+`
local channel, wait, gives_up = ARGV[5], tonumber(ARGV[6]), ARGV[7] == '1'
local answer = 'released'
if redis.call('HDEL', key, holder) == 1 then released() else answer = gone() end
if gives_up and redis.call('ZSCORE', times, holder) then
  local behind = false
  for _, other in ipairs(redis.call('LRANGE', queue, 0, -1)) do
    if behind then redis.call('ZINCRBY', times, int(-wait), other) end
    behind = behind or other == holder
  end
  redis.call('ZREM', times, holder)
  redis.call('LREM', queue, 0, holder)
  answer = 'released'
end
local first = purge()
if first and redis.call('EXISTS', key) == 0 then redis.call(verb, channel .. ':' .. first, '0') end
return answer`)

// Release implements [neighbour.Wire].
func (f *fair) Release(ctx context.Context, a neighbour.Attempt) (held bool, err error) {
	return f.leave(ctx, a, "0")
}

// Cancel implements [neighbour.Wire].
func (f *fair) Cancel(ctx context.Context, a neighbour.Attempt) (found bool, err error) {
	return f.leave(ctx, a, "1")
}

func (f *fair) leave(ctx context.Context, a neighbour.Attempt, givesUp string) (found bool, err error) {
	return f.release(ctx, releaseFair, a, f.keys(a.Name), f.lock.Channel(a), f.wait(), givesUp)
}

var inspectFair = neighbour.NewScript("inspect", neighbour.Repeats, `#!lua flags=no-writes
`+theHolder+`
if redis.call('EXISTS', KEYS[1]) == 1 and not the_holder(KEYS[1]) then return wrong end
local waiters = {}
for _, one in ipairs(redis.call('LRANGE', KEYS[2], 0, -1)) do
  waiters[#waiters + 1] = {one, redis.call('ZSCORE', KEYS[3], one) or '0'}
end
local clock = redis.call('TIME')
return cjson.encode({redis.call('PTTL', KEYS[1]), redis.call('HGETALL', KEYS[1]), waiters, clock[1] .. '000'})`)

// Inspect implements [neighbour.Wire].
func (f *fair) Inspect(ctx context.Context, name string) (neighbour.State, error) {
	answer, err := f.Run(ctx, inspectFair, f.keys(name), nil)
	if err != nil {
		return neighbour.State{}, err
	}
	var parts []json.RawMessage
	if err := json.Unmarshal([]byte(answer), &parts); err != nil || len(parts) != 4 {
		return neighbour.State{}, unexpected(inspectFair, answer)
	}
	ttl, fields, err := hashOf(inspectFair, answer, parts[:2])
	if err != nil {
		return neighbour.State{}, err
	}
	var waiters [][2]string
	var clock string
	if string(parts[2]) != "{}" && json.Unmarshal(parts[2], &waiters) != nil ||
		json.Unmarshal(parts[3], &clock) != nil {
		return neighbour.State{}, unexpected(inspectFair, answer)
	}
	state := lockState(ttl, fields)
	state.Absent = state.Absent && len(waiters) == 0
	now, _ := strconv.ParseFloat(clock, 64)
	for _, w := range waiters {
		due, _ := strconv.ParseFloat(w[1], 64)
		state.Waiters = append(state.Waiters, neighbour.Waiter{
			ID: attemptOf(w[0]), Mode: neighbour.Exclusive, Left: time.Duration(max(due-now, 0)) * time.Millisecond,
		})
	}
	return state, nil
}

var evictFair = neighbour.NewScript("evict", neighbour.Once, `#!lua flags=allow-oom
`+theHolder+purge+`
if redis.call('EXISTS', key) == 0 then return '0' end
if not the_holder(key) then return wrong end
redis.call('DEL', key)
local first = purge()
if first then redis.call(ARGV[1], ARGV[2] .. ':' .. first, '0') end
return '1'`)

// Evict implements [neighbour.Wire]: it is forceUnlock.
func (f *fair) Evict(ctx context.Context, name string, token uint64) (ended int, err error) {
	return f.evict(ctx, evictFair, token, f.keys(name), f.lock.Channel(neighbour.Attempt{Name: name}))
}

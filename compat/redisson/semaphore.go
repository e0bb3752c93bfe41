package redisson

import (
	"context"
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/neighbour"
)

// semaphore is the wire of RSemaphore: a number, the permits that nobody has. It has no TTL and
// no holders. So Redisson never gets the permits of a dead process back.
//
// The clients of this library write down their own permits in a sorted set beside it, which
// Redisson does not read. Each of them gives back what another one held when it died. A number that
// does not exist is set as trySetPermits does: to the limit, less the permits in that set, because
// their releases add to it.
type semaphore struct{ *base }

const (
	semaphoreChannel = "redisson_sc"
	heldSuffix       = "holdfast_held"
	// keepHeld lets the set outlive its last use by a week: permits that died in it are lost after that,
	// if no client of this library came by.
	keepHeld = "redis.call('PEXPIRE', held, '604800000')\n"
)

// Traits implements [neighbour.Wire].
func (s *semaphore) Traits() neighbour.Traits {
	return neighbour.Traits{
		Neighbour: "Redisson's RSemaphore",
		Modes:     []neighbour.Mode{neighbour.Permits},
		Hint:      "Config.Kind chooses the kind of lock",
		Commands: []string{
			"time", "exists KEY", "get KEY", "set KEY 1 px 1", "incrby KEY 1", "decrby KEY 1", "pexpire KEY 1",
			"zscore KEY m", "zadd KEY 1 m", "zrem KEY m", "zrange KEY 0 -1 WITHSCORES", "zrangebyscore KEY 0 1",
			"zremrangebyscore KEY 0 1",
			s.publishes(),
		},
	}
}

// Channel implements [neighbour.Wire].
func (s *semaphore) Channel(a neighbour.Attempt) string {
	return prefixed(semaphoreChannel, s.key(a.Name))
}

// keys are those of a semaphore: the number, the channel, the set.
func (s *semaphore) keys(name string) []string {
	key := s.key(name)
	return []string{key, prefixed(semaphoreChannel, key), suffixed(key, heldSuffix)}
}

// member is a hold in the set.
func member(a neighbour.Attempt, field string) string { return strconv.Itoa(a.Count) + ":" + field }

const permits = clock + `
local key, channel, held = KEYS[1], KEYS[2], KEYS[3]
local function number()
  local value = redis.call('GET', key)
  if value and not (string.find(value, '^-?%d+$') and #value <= 14) then
    return nil, redis.error_reply('WRONGTYPE The value is not a semaphore of Redisson')
  end
  return tonumber(value or 'none')
end
local function count(member) return tonumber(string.match(member, '^(%d+):')) or 0 end
local function give_back(n, verb)
  if redis.call('EXISTS', key) == 0 then return end
  redis.call(verb, channel, string.format('%.0f', redis.call('INCRBY', key, n)))
end
`

var acquirePermits = neighbour.NewScript("acquire", neighbour.Once, `#!lua
`+acquiring+permits+`
local want, limit, verb = tonumber(ARGV[3]), tonumber(ARGV[4]), ARGV[5]
local member = ARGV[3] .. ':' .. holder
local free, bad = number()
if bad then return bad end
if redis.call('ZSCORE', held, member) then
  redis.call('ZADD', held, string.format('%.0f', now + tonumber(ttl)), member)
  return 'granted'
end
if not free then
  redis.call('ZREMRANGEBYSCORE', held, '-inf', now)
  for _, live in ipairs(redis.call('ZRANGE', held, 0, -1)) do limit = limit - count(live) end
  redis.call('SET', key, string.format('%.0f', limit))
  redis.call(verb, channel, string.format('%.0f', limit))
end
for _, dead in ipairs(redis.call('ZRANGEBYSCORE', held, '-inf', now)) do
  redis.call('ZREM', held, dead)
  give_back(count(dead), verb)
end
free = number()
if free < want then
  local left, first = -1, redis.call('ZRANGE', held, 0, 0, 'WITHSCORES')
  if first[2] then left = math.max(tonumber(first[2]) - now, 1) end
  return 'busy ' .. string.format('%.0f', left) .. ' -'
end
redis.call('DECRBY', key, want)
redis.call('ZADD', held, string.format('%.0f', now + tonumber(ttl)), member)
`+keepHeld+`
return 'granted'`)

// Acquire implements [neighbour.Wire].
func (s *semaphore) Acquire(ctx context.Context, a neighbour.Attempt, _ bool) (neighbour.Outcome, error) {
	if a.Count > a.Limit {
		return neighbour.Outcome{Limit: a.Limit}, nil
	}
	keys := s.keys(a.Name)
	verb, err := s.verb(ctx, keys[0])
	if err != nil {
		return neighbour.Outcome{}, err
	}
	return s.acquire(ctx, acquirePermits, a, keys, strconv.Itoa(a.Count), strconv.Itoa(a.Limit), verb)
}

var releasePermits = neighbour.NewScript("release", neighbour.Once, `#!lua flags=allow-oom
`+releasing+permits+`
local _, bad = number()
if bad then return bad end
if redis.call('ZREM', held, ARGV[5] .. ':' .. holder) == 0 then return gone() end
released()
give_back(ARGV[5], verb)
return 'released'`)

// Release implements [neighbour.Wire].
func (s *semaphore) Release(ctx context.Context, a neighbour.Attempt) (held bool, err error) {
	return s.release(ctx, releasePermits, a, s.keys(a.Name), strconv.Itoa(a.Count))
}

// Cancel implements [neighbour.Wire]: there is no queue.
func (s *semaphore) Cancel(ctx context.Context, a neighbour.Attempt) (found bool, err error) {
	return s.Release(ctx, a)
}

var renewPermits = neighbour.NewScript("renew", neighbour.Once, `#!lua flags=allow-oom
`+clock+renewing+`
for i, held in ipairs(KEYS) do
  local member, till = ARGV[2 * i - 1], now + tonumber(ARGV[2 * i])
  local score = redis.pcall('ZSCORE', held, member)
  if refused(score) then return score end
  if type(score) == 'string' and tonumber(score) > now then
    if tonumber(score) < till then redis.call('ZADD', held, string.format('%.0f', till), member) end
    `+keepHeld+`
    answer = answer .. '1'
  else
    answer = answer .. '0'
  end
end
return answer`)

// Renew implements [neighbour.Wire].
func (s *semaphore) Renew(ctx context.Context, holds []neighbour.Attempt) ([]neighbour.Renewal, error) {
	return s.renew(ctx, renewPermits, holds, func(a neighbour.Attempt, field string) ([]string, string) {
		return s.keys(a.Name)[2:], member(a, field)
	})
}

// Keep implements [neighbour.Wire]. The library keeps permits by a renewal.
func (s *semaphore) Keep(context.Context, neighbour.Attempt, time.Duration) (held bool, err error) {
	return false, nil
}

var inspectPermits = neighbour.NewScript("inspect", neighbour.Repeats, `#!lua flags=no-writes
`+permits+`
local free, bad = number()
if bad then return bad end
return cjson.encode({free or cjson.null, redis.call('ZRANGE', held, 0, -1, 'WITHSCORES'), now})`)

// Inspect implements [neighbour.Wire]. The limit is the number and what this library's clients
// hold, because nobody can tell what Java programs hold. If nothing is left, somebody has it. The
// permits of a client that is gone are free.
func (s *semaphore) Inspect(ctx context.Context, name string) (neighbour.State, error) {
	answer, err := s.Run(ctx, inspectPermits, s.keys(name), nil)
	if err != nil {
		return neighbour.State{}, err
	}
	var parts []json.RawMessage
	var free *int // nil: nobody has set the number yet
	var now int64
	var members []string
	if json.Unmarshal([]byte(answer), &parts) != nil || len(parts) != 3 ||
		json.Unmarshal(parts[0], &free) != nil || json.Unmarshal(parts[2], &now) != nil ||
		string(parts[1]) != "{}" && json.Unmarshal(parts[1], &members) != nil {
		return neighbour.State{}, unexpected(inspectPermits, answer)
	}
	state := neighbour.State{Absent: free == nil && len(members) == 0}
	if free != nil {
		state.Limit = max(*free, 0)
	}
	for i := 0; i+1 < len(members); i += 2 {
		count, field, _ := strings.Cut(members[i], ":")
		n, _ := strconv.Atoi(count)
		till, _ := strconv.ParseFloat(members[i+1], 64)
		state.Limit += n
		if left := int64(till) - now; left > 0 { // else the next client that comes gives them back
			state.Holders = append(state.Holders, neighbour.Holder{
				ID: attemptOf(field), Mode: neighbour.Permits, Permits: n, Left: time.Duration(left) * time.Millisecond,
			})
		}
	}
	if state.Limit == 0 && !state.Absent {
		state.Limit = 1
		state.Holders = []neighbour.Holder{
			{ID: "unknown", Mode: neighbour.Permits, Permits: 1, Left: neighbour.Unknown},
		}
	}
	return state, nil
}

var evictPermits = neighbour.NewScript("evict", neighbour.Once, `#!lua flags=allow-oom
`+permits+`
local _, bad = number()
if bad then return bad end
local all = redis.call('ZRANGE', held, 0, -1)
for _, member in ipairs(all) do
  redis.call('ZREM', held, member)
  give_back(count(member), ARGV[1])
end
return tostring(#all)`)

// Evict implements [neighbour.Wire], for the holds of this library's clients.
func (s *semaphore) Evict(ctx context.Context, name string, token uint64) (ended int, err error) {
	return s.evict(ctx, evictPermits, token, s.keys(name))
}

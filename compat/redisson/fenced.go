package redisson

import (
	"context"
	"strconv"

	"github.com/holdfast-go/holdfast/internal/neighbour"
	"github.com/holdfast-go/holdfast/internal/wire"
)

// fenced is the wire of RFencedLock: an RLock with a counter beside it. Each grant raises the
// counter, and its new value is the token. As Redisson leaves it, the counter has no TTL.
type fenced struct{ lock }

const tokenPrefix = "redisson_lock_token"

// Traits implements [neighbour.Wire].
func (f *fenced) Traits() neighbour.Traits {
	t := f.lock.Traits()
	t.Neighbour = "Redisson's RFencedLock"
	t.Commands = append(t.Commands, "incr KEY", "get KEY")
	return t
}

// lastToken reads the counter. A value that never was a token is refused: neither side could tell which holder is
// newer.
const lastToken = `
local last = redis.call('GET', counter) or '0'
if not (string.find(last, '^%d+$') and #last <= 15) then
  return redis.error_reply('WRONGTYPE The value is not a counter of tokens of Redisson')
end
`

// The counter comes first: if its key holds something else, nothing is written. While the
// attempt holds the lock, nobody else raises the counter, so a repeated request reads its token.
var acquireFenced = neighbour.NewScript("acquire", neighbour.Once, `#!lua
`+acquiring+theHolder+`
local counter = KEYS[2]
`+lastToken+`
local function next_token() return string.format('%.0f', redis.call('INCR', counter)) end
if redis.call('HEXISTS', key, holder) == 1 then
  redis.call('PEXPIRE', key, ttl)
  if last == '0' then last = next_token() end
  return 'granted ' .. last
end
if redis.call('EXISTS', key) == 0 then
  local token = next_token()
  redis.call('HSET', key, holder, '1')
  redis.call('PEXPIRE', key, ttl)
  return 'granted ' .. token
end
local other = the_holder(key)
if not other then return wrong end
return 'busy ' .. redis.call('PTTL', key) .. ' ' .. other`)

// Acquire implements [neighbour.Wire].
func (f *fenced) Acquire(ctx context.Context, a neighbour.Attempt, _ bool) (neighbour.Outcome, error) {
	key := f.key(a.Name)
	return f.acquire(ctx, acquireFenced, a, []string{key, prefixed(tokenPrefix, key)})
}

var readToken = neighbour.NewScript("inspect", neighbour.Repeats, `#!lua flags=no-writes
local counter = KEYS[1]
`+lastToken+`
return last`)

// Inspect implements [neighbour.Wire]. It asks for the counter before and after the lock: if the
// two are the same, the holder is that of the token.
func (f *fenced) Inspect(ctx context.Context, name string) (neighbour.State, error) {
	before, err := f.token(ctx, name)
	if err != nil {
		return neighbour.State{}, err
	}
	state, err := f.lock.Inspect(ctx, name)
	if err != nil {
		return neighbour.State{}, err
	}
	after, err := f.token(ctx, name)
	if err != nil {
		return neighbour.State{}, err
	}
	state.Fence = after
	state.Absent = state.Absent && after == 0
	if len(state.Holders) == 1 && before == after {
		state.Holders[0].Token = after
	}
	return state, nil
}

func (f *fenced) token(ctx context.Context, name string) (uint64, error) {
	answer, err := f.Run(ctx, readToken, []string{prefixed(tokenPrefix, f.key(name))}, nil)
	if err != nil {
		return 0, err
	}
	token, err := strconv.ParseUint(answer, 10, 53)
	if err != nil {
		return 0, unexpected(readToken, answer)
	}
	return token, nil
}

var evictFenced = neighbour.NewScript("evict", neighbour.Once, `#!lua flags=allow-oom
`+theHolder+`
if redis.call('EXISTS', KEYS[1]) == 0 then return '0' end
if not the_holder(KEYS[1]) then return wrong end
if ARGV[2] ~= '0' and redis.call('GET', KEYS[3]) ~= ARGV[2] then return '0' end
redis.call('DEL', KEYS[1])
redis.call(ARGV[1], KEYS[2], '0')
return '1'`)

// Evict implements [neighbour.Wire]. The counter stays, so that tokens go on rising.
func (f *fenced) Evict(ctx context.Context, name string, token uint64) (ended int, err error) {
	key := f.key(name)
	keys := []string{key, f.Channel(neighbour.Attempt{Name: name}), prefixed(tokenPrefix, key)}
	return f.evict(ctx, evictFenced, 0, keys, wire.Number(token))
}

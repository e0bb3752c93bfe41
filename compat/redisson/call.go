package redisson

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/neighbour"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/script"
)

const (
	// latchFor is how long a release is remembered. It covers the repeats of a client that got no
	// answer. Redisson has about the same by default.
	latchFor = 20 * time.Second

	latchPrefix = "redisson_unlock_latch"
)

// remembers is how long a release is remembered. If a request to acquire may still arrive, that is at
// least for as long as what it would get.
func remembers(a neighbour.Attempt) time.Duration {
	if a.Late {
		return max(latchFor, a.TTL)
	}
	return latchFor
}

// acquiring begins a script that acquires. What is remembered of the attempt's release shows that the
// request is late, so it gets nothing: nobody would give that back.
const acquiring = `
local key, holder, ttl = KEYS[1], ARGV[1], ARGV[2]
if redis.call('EXISTS', KEYS[#KEYS]) == 1 then return 'gone' end
`

// acquire runs a script that begins with acquiring. args are its further arguments.
func (b *base) acquire(
	ctx context.Context, s *script.Script, a neighbour.Attempt, keys []string, args ...string,
) (neighbour.Outcome, error) {
	field, err := holder(a)
	if err != nil {
		return neighbour.Outcome{}, err
	}
	keys = append(keys, latch(keys[0], a))
	answer, err := b.Run(ctx, s, keys, append([]string{field, wire.Millis(a.TTL)}, args...))
	if err != nil {
		return neighbour.Outcome{}, err
	}
	return outcome(s, answer)
}

// outcome reads "granted", "granted TOKEN", "gone", "busy LEFT HOLDER" or "busy LEFT HOLDER PLACE".
func outcome(s *script.Script, answer string) (got neighbour.Outcome, err error) {
	word, rest, _ := strings.Cut(answer, " ")
	switch {
	case answer == "gone":
		return neighbour.Outcome{Gone: true}, nil
	case answer == "granted":
		return neighbour.Outcome{Granted: true}, nil
	case word == "granted":
		got.Granted = true
		got.Token, err = strconv.ParseUint(rest, 10, 53)
	case word == "busy":
		ms, after, _ := strings.Cut(rest, " ")
		field, place, ordered := strings.Cut(after, " ")
		var n float64 // of a very long time Lua writes the exponent
		n, err = strconv.ParseFloat(ms, 64)
		if got.Left = neighbour.Left(n); field != "-" {
			got.Holder = attemptOf(field)
		}
		if err == nil && ordered {
			got.Place, err = strconv.Atoi(place)
		}
	default:
		err = strconv.ErrSyntax
	}
	if err != nil {
		return neighbour.Outcome{}, unexpected(s, answer)
	}
	return got, nil
}

// releasing begins a script that releases. If the attempt holds nothing, the memory of a release says
// whether the request is a copy of one that has run. A request to acquire that may still arrive must
// find that memory, whatever the attempt holds.
const releasing = `
local key, latch = KEYS[1], KEYS[#KEYS]
local holder, verb, remember, late = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local function released() redis.call('SET', latch, '1', 'PX', remember) end
local function gone()
  if redis.call('EXISTS', latch) == 1 then return 'released' end
  if late == '1' then released() end
  return 'gone'
end
`

// release runs a script that begins with releasing. args are its further arguments.
func (b *base) release(
	ctx context.Context, s *script.Script, a neighbour.Attempt, keys []string, args ...string,
) (held bool, err error) {
	field, err := holder(a)
	if err != nil {
		return false, err
	}
	verb, err := b.verb(ctx, keys[0])
	if err != nil {
		return false, err
	}
	late := "0"
	if a.Late {
		late = "1"
	}
	keys = append(keys, latch(keys[0], a))
	answer, err := b.Run(ctx, s, keys, append([]string{field, verb, wire.Millis(remembers(a)), late}, args...))
	return answer == "released", err
}

// keep runs a script that lets a hold end by itself.
func (b *base) keep(
	ctx context.Context, s *script.Script, a neighbour.Attempt, left time.Duration,
) (held bool, err error) {
	field, err := holder(a)
	if err != nil {
		return false, err
	}
	answer, err := b.Run(ctx, s, []string{b.key(a.Name)}, []string{field, wire.Millis(left)})
	return answer == "kept", err
}

// renew runs a script that extends holds. of returns the keys of a hold, and what stands in them for it.
func (b *base) renew(
	ctx context.Context, s *script.Script, holds []neighbour.Attempt,
	of func(a neighbour.Attempt, field string) (keys []string, member string),
) ([]neighbour.Renewal, error) {
	var keys, args []string
	for _, a := range holds {
		field, err := holder(a)
		if err != nil {
			return nil, err
		}
		own, member := of(a, field)
		keys, args = append(keys, own...), append(args, member, wire.Millis(a.TTL))
	}
	answer, err := b.Run(ctx, s, keys, args)
	if err != nil {
		return nil, err
	}
	if len(answer) != len(holds) {
		return nil, unexpected(s, answer)
	}
	list := make([]neighbour.Renewal, len(holds))
	for i := range list {
		if answer[i] == '1' {
			list[i] = neighbour.Renewed
		}
	}
	return list, nil
}

// evict runs a script that ends all holds of a lock. A hold has no token, so one with a token is none.
func (b *base) evict(
	ctx context.Context, s *script.Script, token uint64, keys []string, args ...string,
) (ended int, err error) {
	if token != 0 {
		return 0, nil
	}
	verb, err := b.verb(ctx, keys[0])
	if err != nil {
		return 0, err
	}
	answer, err := b.Run(ctx, s, keys, append([]string{verb}, args...))
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(answer)
}

// clock sets now to the server's time, in ms.
const clock = `
local clock = redis.call('TIME')
local now = tonumber(clock[1]) * 1000 + math.floor(tonumber(clock[2]) / 1000)
`

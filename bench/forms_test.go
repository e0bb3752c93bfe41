package bench

import "testing"

// A form is a way in which the scripts of a pair could store the record. Each gives a
// token by the server's clock, and each release checks the holder.
type form struct{ name, take, give string }

// What all forms have in common: the token, and the check of the holder.
const (
	tokenOf = `
local key, attempt, ttl, life = KEYS[1], ARGV[1], ARGV[2], ARGV[3]
local clock = redis.call('TIME')
local token = clock[1] .. string.sub('00000' .. clock[2], -6)
`
	ifMine = `
if lock and string.sub(lock, -#ARGV[1] - 1) == ' ' .. ARGV[1] and string.sub(lock, 17, 17) == ' ' then
`
)

var forms = []form{
	{"nothing", `return 'granted 0000000000000000 0'`, `return 'released'`},
	{
		"hash", tokenOf + `
local last = redis.call('HGET', key, 'lock')
if last and (#last > 16 or token <= last) then return 'busy' end
redis.call('HSET', key, 'lock', token .. ' ' .. ttl .. ' ' .. attempt)
redis.call('PEXPIRE', key, life)
return 'granted ' .. token .. ' 0'`, `
local lock = redis.call('HGET', KEYS[1], 'lock')` + ifMine + `
  redis.call('HSET', KEYS[1], 'lock', string.sub(lock, 1, 16))
  return 'released'
end
return 'gone'`,
	},
	{
		"string", tokenOf + `
local last = redis.call('GET', key)
if last and (#last > 16 or token <= last) then return 'busy' end
redis.call('SET', key, token .. ' ' .. ttl .. ' ' .. attempt, 'PX', life)
return 'granted ' .. token .. ' 0'`, `
local lock = redis.call('GET', KEYS[1])` + ifMine + `
  redis.call('SET', KEYS[1], string.sub(lock, 1, 16), 'KEEPTTL')
  return 'released'
end
return 'gone'`,
	},
	{ // What it finds it would have to write back.
		"written-first", tokenOf + `
local last = redis.call('SET', key, token .. ' ' .. ttl .. ' ' .. attempt, 'PX', life, 'GET')
if last and (#last > 16 or token <= last) then return 'busy' end
return 'granted ' .. token .. ' 0'`, `
local lock = redis.call('SET', KEYS[1], ARGV[2], 'KEEPTTL', 'GET')` + ifMine + `
  return 'released'
end
return 'gone'`,
	},
}

func formNamed(name string) form {
	for _, f := range forms {
		if f.name == name {
			return f
		}
	}
	panic("BUG: no form " + name)
}

// BenchmarkForms is a pair by scripts alone, without the library, for several forms of
// the record; ours is the hash. It shows what a fencing token costs in any form.
func BenchmarkForms(b *testing.B) {
	r := newRig(b, kitNamed("goredis"))
	bare := rawPair(r.party.raw, "pair")
	for _, f := range forms {
		b.Run(f.name, func(b *testing.B) { benchPairs(b, scriptPair(b, r.party.raw, f), beside{"x-raw-p50", bare}) })
	}
}

-- renew — extend several leases.
--
-- KEYS   n key        the records, one for each lease
-- ARGV   1 retention  ms for which a record outlives its last lease
-- ARGV   n lease      for the i-th key, three arguments from 3i-1 on: attempt, ttl in ms, owner or empty
--
-- ANSWER renewed <each…>  for each lease, in order, one of
-- EACH   <waiting>  extended; so many wait for the lock
-- EACH   -          not held: ended, or the key holds no record that this format knows
-- EACH   evicted    an operator ended it
--
-- HOLDS  I2 I4 I5. Never shortens a lease. An expired lease is not revived: a
--        renewal that was long on its way must not block the lock for nobody.
-- WHY    PEXPIRE comes first because it needs no memory: after it the script
--        may write although the server is full, so leases survive that.

local retention = tonumber(ARGV[1])
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local micros = clock[1] * 1000000 + clock[2]

local function keep(key, ttl, fence)
  local ahead = math.max(0, math.ceil((fence - micros) / 1000))
  local ms = string.format('%d', ttl + retention + ahead)
  if redis.call('PEXPIRE', key, ms, 'GT') == 0 and redis.call('PTTL', key) < 0 then
    redis.call('PEXPIRE', key, ms)
  end
end

local function renew(key, attempt, ttl, owner)
  local got = redis.pcall('HMGET', key, 'holder', 'expiry', 'waiting', 'fence', 'entries', 'evicted')
  if got.err then
    -- One key that was overwritten with another type is one lease lost, not all.
    if string.find(got.err, 'WRONGTYPE', 1, true) then return '-' end
    error(got.err)
  end
  local waiting = got[3] or '0'
  -- A record of a later format is not written to.
  if not tonumber(waiting) then return '-' end
  local mine = got[1] == attempt and not got[5]
  if owner ~= '' then
    mine = got[1] == owner and got[5] and string.find(' ' .. got[5] .. ' ', ' ' .. attempt .. ' ', 1, true)
  end
  if mine and tonumber(got[2]) > now then
    keep(key, ttl, tonumber(got[4]))
    if now + ttl > tonumber(got[2]) then
      redis.call('HSET', key, 'expiry', string.format('%d', now + ttl))
    end
    return waiting
  end
  local share = not mine and redis.call('HGET', key, 'h:' .. attempt)
  if share then
    local want, expiry, rest = string.match(share, '^(%a) (%d+) (.*)$')
    if tonumber(expiry) > now then
      keep(key, ttl, tonumber(got[4]))
      if now + ttl > tonumber(expiry) then
        redis.call('HSET', key, 'h:' .. attempt, want .. ' ' .. string.format('%d', now + ttl) .. ' ' .. rest)
      end
      return waiting
    end
  end
  if got[6] and string.find(got[6] .. ' ', ' ' .. attempt .. ' ', 1, true) then return 'evicted' end
  return '-'
end

local each = {}
for i, key in ipairs(KEYS) do
  each[i] = renew(key, ARGV[3 * i - 1], tonumber(ARGV[3 * i]), ARGV[3 * i + 1])
end
return 'renewed ' .. table.concat(each, ' ')

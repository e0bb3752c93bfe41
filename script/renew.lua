#!lua flags=allow-oom
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

local function extend_record(key, ttl, fence)
  local ahead = math.max(0, math.ceil((fence - micros) / 1000))
  local ms = string.format('%d', math.max(ttl, ahead) + retention)
  if redis.call('PEXPIRE', key, ms, 'GT') == 0 and redis.call('PTTL', key) < 0 then
    redis.call('PEXPIRE', key, ms)
  end
end

local function renew(key, attempt, ttl, owner)
  local lock = redis.pcall('HGET', key, 'lock')
  if type(lock) == 'table' then
    -- One key that was overwritten with another type is one lease lost, not all.
    if string.find(lock.err, 'WRONGTYPE', 1, true) then return '-' end
    error(lock.err)
  end
  -- A record of a later format is not written to.
  local word, lease, holder, more = string.match(lock or '', '^(%d+) ?(%-?%d*) ?(%S*)( ?%+?)$')
  if not word then return '-' end
  local fence = tonumber(word)
  local expiry = math.floor(fence / 1000) + (tonumber(lease, 10) or 0)
  local mine = holder == attempt
  if owner ~= '' then
    local entries = holder == '@' .. owner and redis.call('HGET', key, 'entries')
    mine = entries and string.find(' ' .. entries .. ' ', ' ' .. attempt .. ' ', 1, true)
  end
  local waiting = '0'
  if more ~= '' then
    local queue = redis.call('HGET', key, 'queue') or ''
    waiting = string.match(queue, '^%d+') or '0'
    -- A client that was noted to be silent is not.
    local client = ' ' .. string.match(attempt, '^[^/]*') .. ' '
    local from, to = string.find(queue .. ' ', client, 1, true)
    if from then
      redis.call('HSET', key, 'queue', string.sub(queue, 1, from - 1) .. string.sub(queue, to))
    end
  end
  if mine and expiry > now then
    extend_record(key, ttl, fence)
    -- What was pushed is confirmed, however short it is: see grant in the shared part.
    if now + ttl > expiry or string.find(lease, '^%-?0%d') then
      expiry = math.max(expiry, now + ttl)
      local form = word .. ' ' .. string.format('%d', expiry - math.floor(fence / 1000)) .. ' ' .. holder .. more
      redis.call('HSET', key, 'lock', form)
    end
    return waiting
  end
  local share = not mine and more ~= '' and redis.call('HGET', key, 'h:' .. attempt)
  -- An empty field has gone, see commit in the shared part.
  if share and share ~= '' then
    local mode, till, rest = string.match(share, '^(%a) (%d+) (.*)$')
    local over = tonumber(till, 10)
    if over > now then
      extend_record(key, ttl, fence)
      if now + ttl > over or string.find(till, '^0') then
        till = string.format('%d', math.max(over, now + ttl))
        redis.call('HSET', key, 'h:' .. attempt, mode .. ' ' .. till .. ' ' .. rest)
      end
      return waiting
    end
  end
  local evicted = redis.call('HGET', key, 'evicted')
  if evicted and string.find(evicted .. ' ', ' ' .. attempt .. ' ', 1, true) then return 'evicted' end
  return '-'
end

local each = {}
for i, key in ipairs(KEYS) do
  each[i] = renew(key, ARGV[3 * i - 1], tonumber(ARGV[3 * i]), ARGV[3 * i + 1])
end
return 'renewed ' .. table.concat(each, ' ')

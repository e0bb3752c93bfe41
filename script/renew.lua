#!lua flags=allow-oom
-- renew — extend several leases.
--
-- KEYS   n key        the records, one for each lease
-- ARGV   1 retention  ms for which a record outlives its last lease
-- ARGV   n lease      for the i-th key, three arguments from 3i-1 on: attempt, ttl in ms, owner or empty
--
-- ANSWER renewed <each…>  for each lease, in order, one of
-- EACH   <waiting>  extended; the number of waiters
-- EACH   -          not held: it has ended, or the key holds no record of this format
-- EACH   evicted    an operator has ended it
--
-- HOLDS  I2 I4 I5. It never shortens a lease. It does not revive an expired lease: a late
--        renewal must not block the lock when nobody uses it.
-- WHY    PEXPIRE comes first because it needs no memory. After it the script may write even
--        if the server is full. So leases survive on a full server.

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
    -- If another program has overwritten one key, one lease is lost and not all.
    if string.find(lock.err, 'WRONGTYPE', 1, true) then return '-' end
    error(lock.err)
  end
  -- This script does not write to a record of a later format.
  local word, lease, holder, more = string.match(lock or '', '^(%d+) ?(%-?%d*) ?(%S*)( ?%+?!?)$')
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
    -- The client has sent a request, so it is not silent.
    local client = ' ' .. string.match(attempt, '^[^/]*') .. ' '
    local from, to = string.find(queue .. ' ', client, 1, true)
    if from then
      redis.call('HSET', key, 'queue', string.sub(queue, 1, from - 1) .. string.sub(queue, to))
    end
  end
  if mine and expiry > now then
    extend_record(key, ttl, fence)
    -- A renewal confirms a provisional hold, even if it adds no time: see grant in record.lua.
    if now + ttl > expiry or string.find(lease, '^%-?0%d') then
      expiry = math.max(expiry, now + ttl)
      local form = word .. ' ' .. string.format('%d', expiry - math.floor(fence / 1000)) .. ' ' .. holder .. more
      redis.call('HSET', key, 'lock', form)
    end
    return waiting
  end
  local share = not mine and more ~= '' and redis.call('HGET', key, 'h:' .. attempt)
  -- An empty field counts as absent, see commit in record.lua.
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

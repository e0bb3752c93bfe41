#!lua flags=allow-oom
-- renew — extend several leases.
--
-- KEYS   n key         the records, one for each lease
-- ARGV   1 retention   ms for which a record outlives its last lease
-- ARGV   2 common_ttl  ms from now on, for each lease without a ttl of its own
-- ARGV   n lease       for each key, in order: <attempt> [<ttl> [<owner>]]
--
-- ANSWER renewed <each…>  for each lease, in order, one of
-- EACH   <waiting>  extended; the number of waiters
-- EACH   -          not held: it has ended, or the key holds no record of this format
-- EACH   evicted    an operator has ended it, or has asked for its end: it is not extended
--
-- HOLDS  I2 I4 I5. It never shortens a lease. It does not revive an expired lease: a late
--        renewal must not block the lock when nobody uses it.
-- REPEATS yes: a copy extends only a hold that its attempt still has.
-- WHY    PEXPIRE comes first because it needs no memory. After it the script may write even
--        if the server is full. So leases survive on a full server.

local retention, common_ttl = tonumber(ARGV[1]), tonumber(ARGV[2])
local call, find, sub, match = redis.call, string.find, string.sub, string.match
local clock = call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local micros = clock[1] * 1000000 + clock[2]
local common_life = string.format('%d', common_ttl + retention)

-- has_ttl: the record has a TTL. One that was cut short when it was made may have none yet.
local function extend_record(key, ms, has_ttl)
  if call('PEXPIRE', key, ms, 'GT') == 0 and not has_ttl and call('PTTL', key) < 0 then call('PEXPIRE', key, ms) end
end

-- vanished writes a field that the record has. It reports whether the record is gone, because
-- PEXPIRE has deleted it: see set_record_ttl in record.lua.
local function vanished(key, field, value) return call('HSET', key, field, value) == 1 and call('HDEL', key, field) end

local function renew(key, lock, attempt, ttl, owner)
  if type(lock) == 'table' then
    -- If another program has overwritten one key, one lease is lost and not all.
    if find(lock.err, 'WRONGTYPE', 1, true) then return '-' end
    error(lock.err)
  end
  -- This script does not write to a record of a later format, or to one that no version wrote.
  -- See record.lua, which has the same rules.
  local word, rest = match(lock or '', '^([1-9]%d*)(.*)$')
  local lease, holder, more, alone = '0', '', '', false
  if word and rest ~= '' then lease, holder, more = match(rest, '^ (%-?%d+) (%S+)( ?%+?!?)$') end
  if word and not lease then
    -- The only waiter is a part of the field lock, and remains there.
    local till, since, long, short
    lease, holder, more, till, since, long, short = match(rest, '^ (%-?%d+) ([^@/%s][^/%s]*/%S+)' ..
      '( %+1 ([1-9]%d*) ([1-9]%d*) ([1-9]%d*) 0([1-9]%d*) [^/%s]+/%S+)$')
    alone = lease and #till <= 15 and #since <= 15 and #long <= 14 and #short <= 14
    if not alone then return '-' end
  end
  if not (word and lease) or #word > 16 or #lease > 17 or tonumber(word) >= 9e15 or more == ' ' or
    math.abs(tonumber(lease, 10)) >= 1e15 then
    return '-'
  end
  local fence = tonumber(word)
  local expiry = math.floor(fence / 1000) + tonumber(lease, 10)
  local ahead = math.max(0, math.ceil((fence - micros) / 1000))
  local life = string.format('%d', math.max(ttl, ahead) + retention)
  local mine = holder == attempt
  if owner ~= '' then
    local entries = holder == '@' .. owner and call('HGET', key, 'entries')
    if entries and #entries > 1048576 then return '-' end
    mine = entries and string.find(' ' .. entries .. ' ', ' ' .. attempt .. ' ', 1, true)
  end
  local ending = mine and find(lease, '^%-?00%d')
  local waiting = '0'
  if alone then
    waiting = '1'
  elseif more ~= '' then
    local queue, first, last = call('HGET', key, 'queue') or '', nil, nil
    if queue ~= '' then
      waiting, first, last = match(queue, '^([1-9]%d*) ([1-9]%d*) ([1-9]%d*)')
      if not waiting or #first > 15 or #last > 15 or tonumber(waiting) > last - first + 1 then return '-' end
    end
    -- The client has sent a request, so it is not silent. CURSOR and END go, see unmark in record.lua.
    local client = ' ' .. string.match(attempt, '^[^/]*') .. ' '
    local from, to = find(queue .. ' ', client, 1, true)
    if from then
      queue = string.gsub(string.sub(queue, 1, from - 1) .. string.sub(queue, to), ' >%d+', '')
      queue = string.gsub(queue, ' %?%S+', '')
      call('HSET', key, 'queue', queue)
    end
  end
  if ending then return 'evicted' end
  if mine and expiry > now then
    -- The waiter that got a provisional hold has given the record its TTL.
    local unconfirmed = find(lease, '^%-?0%d')
    extend_record(key, life, unconfirmed)
    -- A renewal confirms a provisional hold, even if it adds no time: see grant in record.lua.
    if now + ttl > expiry or unconfirmed then
      expiry = math.max(expiry, now + ttl)
      local form = word .. ' ' .. string.format('%d', expiry - math.floor(fence / 1000)) .. ' ' .. holder .. more
      if vanished(key, 'lock', form) then return '-' end
    end
    return waiting
  end
  local share = not mine and more ~= '' and call('HGET', key, 'h:' .. attempt)
  -- An empty field counts as absent, see commit in record.lua.
  if share and share ~= '' then
    local mode, till, rest, weight, token, since, name = match(share,
      '^([sp]) (0?0?[1-9]%d*) (([1-9]%d*) ([1-9]%d*) ([1-9]%d*)(.*))$')
    local over = mode and tonumber(till, 10)
    if not mode or over >= 1e15 or #weight > 15 or (mode == 's' and weight ~= '1') or tonumber(token) > fence or
      #since > 15 or (name ~= '' and not find(name, '^ %S+$')) then
      return '-'
    end
    if find(till, '^00') then return 'evicted' end
    if over > now then
      extend_record(key, life)
      if now + ttl > over or string.find(till, '^0') then
        till = string.format('%d', math.max(over, now + ttl))
        if vanished(key, 'h:' .. attempt, mode .. ' ' .. till .. ' ' .. rest) then return '-' end
      end
      return waiting
    end
  end
  local evicted = call('HGET', key, 'evicted')
  local names = match(evicted or '', '^[1-9]%d* %S+ %S+()')
  if names and #evicted <= 65536 and find(evicted .. ' ', ' ' .. attempt .. ' ', names, true) then return 'evicted' end
  return '-'
end

-- The fast path for an exclusive hold that nobody waits for. The field lock ends with the
-- attempt then, and before it are sixteen digits, a space, the lease and a space. A lease that
-- begins with 0 is provisional, and this confirms it. One that begins with 00 is left to renew. Here, handling text costs as much as the calls. So the path
-- handles little of it: it does what renew does for such a hold, and leaves all else to renew.
-- So it is with all that has another form.
local each = {}
for i, key in ipairs(KEYS) do
  local word = ARGV[i + 2]
  local lock = redis.pcall('HGET', key, 'lock')
  local fence, mark, lease, from
  if type(lock) == 'string' then fence, mark, lease, from = match(lock, '^([1-8]%d+) (0?)([1-9]%d*) ()') end
  if from and #lease <= 14 and #fence == 16 and find(lock, word, from, true) == from and from + #word > #lock then
    -- An addition makes numbers of texts for half the price of tonumber.
    fence, lease = fence + 0, lease + 0
  else
    fence = nil
  end
  local since, expiry = 0, 0
  if fence and fence <= micros then
    -- The lease counts from this millisecond.
    since = (fence - fence % 1000) / 1000
    expiry = since + lease
  end
  if expiry > now then
    extend_record(key, common_life, mark ~= '')
    each[i] = '0'
    if now + common_ttl > expiry or mark ~= '' then
      expiry = math.max(expiry, now + common_ttl)
      if vanished(key, 'lock', sub(lock, 1, 17) .. (expiry - since) .. ' ' .. word) then each[i] = '-' end
    end
  else
    local attempt, ttl, owner = string.match(word, '^(%S*) ?(%d*) ?(%S*)$')
    each[i] = renew(key, lock, attempt, tonumber(ttl) or common_ttl, owner)
  end
end
return 'renewed ' .. table.concat(each, ' ')

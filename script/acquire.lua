#!lua
-- acquire — take the lock if it is free; otherwise join its wait queue, if asked to.
--
-- KEYS   1 key             the lock's record
-- ARGV   1 attempt         the acquisition: <client>/<number>, never used again
-- ARGV   2 ttl             lease in ms, at least 1
-- ARGV   3 record_ttl      ms for which the record lives: ttl and the retention after it
-- ARGV   4 mode            x exclusive | s shared | p:<weight>:<limit> permits; with + behind it, the limit counts
--                          only if the record has none
-- ARGV   5 waiter_ttl      ms for which the attempt keeps its position without a poll; 0: do not join the queue
-- ARGV   6 channel_prefix  prefix of the push channels
-- ARGV   7 owner           optional: the name under which several attempts hold together
--
-- ANSWER granted <token> <waiting>         the attempt holds the lock for ttl from now on
-- ANSWER queued <position> <left> <now>    it waits, now or since an earlier request; left: ms until the holders
--                                          may have expired; now: the server's time in ms; no grant is older
-- ANSWER busy <left> <holder>              the lock is not free; holder is - unless exclusive
-- ANSWER conflict <limit>                  another limit is in force, or weight is above the limit asked for
-- ERROR  FORMAT                            the record has a later format, or no version wrote it
-- ERROR  ERR                               mode has no such form, or asks for no permit
--
-- HOLDS  I1 I2 I3 I5 I6. If the same attempt sends it again, it gets the same token, or
--        keeps its position; the lease counts from the later time. A limit is in force
--        while permits are held or an attempt waits. The step decides that after it has
--        ended expired holds and served the queue. If none is in force, this request sets it. The
--        limit 0 is always in force, and no conflict.
-- REPEATS no: after the release a late copy is granted the lock, for nobody.
-- WHY    If a read and a grant were two steps, two clients could both see the lock free.
--        If the token were drawn apart from its grant, tokens could be out of order.

local key, attempt, ttl, record_ttl = KEYS[1], ARGV[1], ARGV[2], ARGV[3]
local mode, waiter_ttl, channel_prefix, owner = ARGV[4], ARGV[5], ARGV[6], ARGV[7]

-- clock_token is the server's time as a token: microseconds. All but the last three digits are ms.
local function clock_token()
  local clock = redis.call('TIME')
  return clock[1] .. string.sub('00000' .. clock[2], -6)
end

-- The fast path for an exclusive lock without holders or waiters. The field lock is then a
-- token and nothing else, so one HGET tells all. Only the new lease needs the record, so
-- PEXPIRE sets the TTL without comparing it. As in commit it comes first. If the key did
-- not exist, it comes again at the end. A token has 16 digits until the year 2286. What is
-- not a number was written by a later format. A hash without the field lock is not ours. A fence
-- ahead of the clock is for the slow path, and so is one that is too large.
if mode == 'x' and not owner then
  local call = redis.call
  local last = call('HGET', key, 'lock')
  if (not last and call('PTTL', key) == -2) or (last and #last == 16 and string.find(last, '^[1-9]%d+$')) then
    local token = clock_token()
    local hold = token .. ' ' .. ttl .. ' ' .. attempt
    if not last then
      local known = call('PEXPIRE', key, record_ttl)
      call('HSET', key, 'lock', hold, 'birth', token)
      if known == 0 then call('PEXPIRE', key, record_ttl) end
      return 'granted ' .. token .. ' 0'
    elseif tonumber(token) > tonumber(last) then
      call('PEXPIRE', key, record_ttl)
      -- 1: PEXPIRE has deleted the record, see set_record_ttl in record.lua.
      if call('HSET', key, 'lock', hold) == 0 then return 'granted ' .. token .. ' 0' end
      call('HDEL', key, 'lock')
    end
  elseif last and waiter_ttl ~= '0' then
    -- The first waiter behind an exclusive holder becomes a part of the field lock: see only_waiter in
    -- record.lua. Its place needs the record until waiter_ttl and the retention of its own client are
    -- over, whatever the retention of the holder's client. So release and its grant need not ask.
    -- The slow path refuses a request that would damage the record.
    local fence, lease, name = string.match(last, '^([1-8]%d+) (%d+) ([^@/%s][^/%s]*/%S+)$')
    if fence and #fence == 16 and #lease <= 15 and #name <= 2048 and name ~= attempt and
      #ttl <= 14 and #waiter_ttl <= 14 and string.find(attempt, '^[^/%s]+/%S+$') then
      local token = clock_token()
      local now = string.sub(token, 1, -4)
      local left = string.sub(fence, 1, -4) + tonumber(lease, 10) - now
      if left > 0 and token - fence > 0 then
        local life = string.format('%d', waiter_ttl + record_ttl - ttl)
        if call('PEXPIRE', key, life, 'GT') == 0 and call('PTTL', key) < 0 then call('PEXPIRE', key, life) end
        local waits = string.format(' +1 %d %s %d 0%d %s', now + waiter_ttl, now, ttl + 0,
          math.min(ttl, math.max(2000, math.min(3000, math.floor(ttl / 10)))), attempt)
        -- 1: PEXPIRE has deleted the record, as above.
        if call('HSET', key, 'lock', last .. waits) == 0 then
          return 'queued 1 ' .. string.format('%d', left) .. ' ' .. now
        end
        call('HDEL', key, 'lock')
      end
    end
  end
end

-- The fast path for shared holders and permits: nobody waits, and the lock is free or held
-- in the same mode. soonest tells that none of the holds has expired. The slow path does
-- everything else.
if mode ~= 'x' and not owner then
  local call = redis.call
  local kind, weight, asked_limit = mode, 1, nil
  if mode ~= 's' then
    kind, weight, asked_limit = string.match(mode, '^(p):(%d+):(%d+)%+?$')
    -- Lua's own conversion writes 14 digits. The slow path writes all 15.
    weight = kind and #weight < 15 and tonumber(weight) or 0
  end
  local got = call('HMGET', key, 'lock', 'shares', 'queue', 'h:' .. attempt, 'limit')
  -- An empty field counts as absent, see commit in record.lua.
  for i = 2, 4 do if got[i] == '' then got[i] = false end end
  local last, sum = got[1], got[2]
  if weight > 0 and not got[3] and not got[4] and (not asked_limit or got[5] == asked_limit) then
    local token = clock_token()
    local now = string.sub(token, 1, -4)
    local till = now + ttl
    local used, shared_mode, soonest = 0, kind, till
    if sum then
      -- The slow path refuses what no version wrote: its numbers are too long, or are none.
      used, shared_mode, soonest = string.match(sum, '^([1-9]%d*) ([sp]) ([1-9]%d*)$')
      if not used or #used > 15 or #soonest > 15 then used, soonest = 0, 0 end
      used, soonest = tonumber(used), tonumber(soonest)
    end
    local open = not last and call('PTTL', key) == -2
    local fence = last and string.match(last, '^[1-9]%d*')
    if fence and #fence == 16 and tonumber(token) > tonumber(fence) then
      if sum then
        open = string.sub(last, 17) == ' 0 - +' and shared_mode == kind and soonest > tonumber(now)
      else
        open = #last == 16
      end
    end
    if open and (not asked_limit or used + weight <= tonumber(asked_limit)) then
      local share = kind .. ' ' .. string.format('%d', till) .. ' ' .. weight .. ' ' .. token .. ' ' .. now
      sum = string.format('%d', used + weight) .. ' ' .. kind .. ' ' .. string.format('%d', math.min(soonest, till))
      local whole = true
      if last then
        if call('PEXPIRE', key, record_ttl, 'GT') == 0 and call('PTTL', key) < 0 then
          call('PEXPIRE', key, record_ttl)
        end
        -- 3: PEXPIRE has deleted the record, see set_record_ttl in record.lua.
        whole = call('HSET', key, 'lock', token .. ' 0 - +', 'h:' .. attempt, share, 'shares', sum) < 3
      else
        local known = call('PEXPIRE', key, record_ttl)
        call('HSET', key, 'lock', token .. ' 0 - +', 'h:' .. attempt, share, 'shares', sum, 'birth', token)
        if known == 0 then call('PEXPIRE', key, record_ttl) end
      end
      if whole then return 'granted ' .. token .. ' 0' end
      call('HDEL', key, 'lock', 'h:' .. attempt, 'shares')
    end
  end
end

local retention = record_ttl - ttl

--include record

ttl, waiter_ttl = tonumber(ttl), tonumber(waiter_ttl)
local mode, weight, asked_limit, follow = mode, 1, nil, nil
if mode ~= 'x' and mode ~= 's' then
  weight, asked_limit, follow = string.match(mode, '^p:(%d+):(%d+)(%+?)$')
  if not weight or #weight > 15 or #asked_limit > 15 or tonumber(weight) == 0 then
    return redis.error_reply('ERR acquire: mode is of no such form, or asks for no permit')
  end
  mode, weight, asked_limit = 'p', tonumber(weight), tonumber(asked_limit)
end

local function granted(token) return commit('granted ' .. token .. ' ' .. text(waiting)) end

expire()
clear_silent(attempt)

local mine = reacquire(attempt, owner, ttl, true)
if mine then return granted(mine) end
-- A copy of the request that granted a hold which is to end.
if is_ending(attempt, owner) then return commit('busy ' .. ms_until_free() .. ' ' .. (holder or '-')) end

-- If the limit is 0, the attempt waits for another one.
if asked_limit and limit and (limit == 0 or follow == '+') then asked_limit = limit end
if asked_limit and weight > asked_limit and limit ~= 0 then return commit('conflict ' .. text(asked_limit)) end

local waiter = waiting > 0 and read_waiter(attempt)
local blocked = false
if waiting > 0 then
  mine, blocked = serve_queue(waiter and attempt)
  -- This step may have granted the lock to another attempt of the same owner.
  if owner and not mine then mine = reacquire(attempt, owner, ttl, true) end
  if mine then return granted(mine) end
end

-- The queue may have removed it, because the limit was lowered.
waiter = waiting > 0 and read_waiter(attempt)
if waiter then return commit(keep_waiting(attempt, waiter, waiter_ttl)) end

if asked_limit and limit ~= asked_limit then
  if limit and (waiting > 0 or (used > 0 and shared_mode == 'p')) then return commit('conflict ' .. text(limit)) end
  limit = asked_limit
  fields.limit = text(limit)
end

-- A reader that re-enters under its owner's name does not queue behind a writer, because
-- that writer waits for the reader.
if blocked and owner and mode == 's' and shared_mode == 's' then
  local function ours(field, value)
    return string.sub(field, 1, 2) == 'h:' and value ~= '' and read_share(string.sub(field, 3), value)[6] == owner
  end
  local all = call('HGETALL', key)
  for i = 1, #all, 2 do
    if ours(all[i], fields[all[i]] or all[i + 1]) then blocked = false end
  end
  -- This step may have granted the lock to another attempt of that owner.
  for field, value in pairs(fields) do
    if ours(field, value) then blocked = false end
  end
end

if not blocked and compatible(mode, weight) then return granted(grant(attempt, owner, mode, weight, ttl)) end
if waiter_ttl == 0 then return commit('busy ' .. ms_until_free() .. ' ' .. (holder or '-')) end

local place = text(tail + 1)
local value = table.concat({place, mode, text(weight), text(ttl), text(now + waiter_ttl), text(now)}, ' ')
fields['#' .. place], fields['w:' .. attempt] = attempt, owner and (value .. ' ' .. owner) or value
set_queue(waiting + 1, head, tail + 1)
extend_record(waiter_ttl)
if unfinished or sweeping() then ask_to_poll(attempt, 1) end
return commit('queued ' .. text(tail - head + 1) .. ' ' .. ms_until_free() .. ' ' .. text(now))

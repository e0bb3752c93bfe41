#!lua
-- acquire — take the lock if it is free; else, if asked, join its line.
--
-- KEYS   1 key             the lock's record
-- ARGV   1 attempt         who asks: <client>/<number>, unique for each acquisition
-- ARGV   2 ttl             lease in ms, at least 1
-- ARGV   3 record_ttl      ms for which the record is to live: ttl and the retention after it
-- ARGV   4 mode            x exclusive | s shared | p:<weight>:<limit> permits
-- ARGV   5 waiter_ttl      ms for which a place in the line is kept without a sign of life; 0: do not join
-- ARGV   6 channel_prefix  channel prefix of the pushes
-- ARGV   7 owner           optional: the name under which several attempts hold together
--
-- ANSWER granted <token> <waiting>     the lock is held for ttl from now on
-- ANSWER queued <place> <left> <now>   joined, or joined before; left: ms until the holders may be over;
--                                      now: the server's time in ms, before which nothing was granted
-- ANSWER busy <left> <holder>          not free; holder is - unless exclusive
-- ANSWER conflict <limit>              another limit is in force, or the weight is above the limit asked for
-- ERROR  FORMAT                        the record is of a later format
-- ERROR  ERR                           mode is of no such form, or asks for no permit
--
-- HOLDS  I1 I2 I3 I5 I6. Sent again by the same attempt it gives the same
--        token, or the same place, and counts the lease from the later time.
--        A limit is in force while permits are held or somebody waits, once
--        what is over has ended and the line was served; who finds none in
--        force says it.
-- WHY    A look and a grant in two steps would let two clients see the lock
--        free; a token drawn apart from its grant could be given out of order.

local key, attempt, ttl, record_ttl = KEYS[1], ARGV[1], ARGV[2], ARGV[3]
local mode, waiter_ttl, channel_prefix, owner = ARGV[4], ARGV[5], ARGV[6], ARGV[7]

-- clock_token is the server's time as a token; all but its last three digits are ms.
local function clock_token()
  local clock = redis.call('TIME')
  return clock[1] .. string.sub('00000' .. clock[2], -6)
end

-- The short way, for a plain mutex that nobody holds, shares or waits for: then
-- the field lock is a token and nothing else, and what there is to know is read
-- at once. Nothing but its next lease needs the record, so its life is set and
-- not compared: first, as in commit, and again where there was no record. A token
-- has 16 digits until the year 2286, and what is no number is of a later format.
if mode == 'x' and not owner then
  local call = redis.call
  local last = call('HGET', key, 'lock')
  if not last or (#last == 16 and string.find(last, '^%d+$')) then
    local token = clock_token()
    local hold = token .. ' ' .. ttl .. ' ' .. attempt
    if not last then
      local known = call('PEXPIRE', key, record_ttl)
      call('HSET', key, 'lock', hold, 'birth', token)
      if known == 0 then call('PEXPIRE', key, record_ttl) end
      return 'granted ' .. token .. ' 0'
    elseif tonumber(token) > tonumber(last) then
      call('PEXPIRE', key, record_ttl)
      call('HSET', key, 'lock', hold)
      return 'granted ' .. token .. ' 0'
    end
  end
end

-- The short way for readers and permits that come in beside their like, or to a
-- lock that is free, while nobody waits. The sum over those who share tells
-- that none of them may be over; what else there is to do is left to the long way.
if mode ~= 'x' and not owner then
  local call = redis.call
  local kind, weight, asked_limit = mode, 1, nil
  if mode ~= 's' then
    kind, weight, asked_limit = string.match(mode, '^(p):(%d+):(%d+)$')
    weight = kind and #weight < 16 and tonumber(weight) or 0
  end
  local got = call('HMGET', key, 'lock', 'shares', 'queue', 'h:' .. attempt, 'limit')
  -- An empty field has gone, see commit in the shared part.
  for i = 2, 4 do if got[i] == '' then got[i] = false end end
  local last, sum = got[1], got[2]
  if weight > 0 and not got[3] and not got[4] and (not asked_limit or got[5] == asked_limit) then
    local token = clock_token()
    local now = string.sub(token, 1, -4)
    local till = now + ttl
    local used, shared_mode, soonest = 0, kind, till
    if sum then
      used, shared_mode, soonest = string.match(sum, '^(%d+) (%a) (%d+)$')
      used, soonest = tonumber(used), tonumber(soonest)
    end
    local open = not last and not sum
    local fence = last and string.match(last, '^%d+')
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
      if last then
        if call('PEXPIRE', key, record_ttl, 'GT') == 0 and call('PTTL', key) < 0 then
          call('PEXPIRE', key, record_ttl)
        end
        call('HSET', key, 'lock', token .. ' 0 - +', 'h:' .. attempt, share, 'shares', sum)
      else
        local known = call('PEXPIRE', key, record_ttl)
        call('HSET', key, 'lock', token .. ' 0 - +', 'h:' .. attempt, share, 'shares', sum, 'birth', token)
        if known == 0 then call('PEXPIRE', key, record_ttl) end
      end
      return 'granted ' .. token .. ' 0'
    end
  end
end

local retention = record_ttl - ttl

--include record

ttl, waiter_ttl = tonumber(ttl), tonumber(waiter_ttl)
local weight, asked_limit = 1, nil
if mode ~= 'x' and mode ~= 's' then
  weight, asked_limit = string.match(mode, '^p:(%d+):(%d+)$')
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

if asked_limit and weight > asked_limit then return commit('conflict ' .. text(asked_limit)) end

local waiter = waiting > 0 and read_field('w:' .. attempt)
local blocked = false
if waiting > 0 then
  mine, blocked = serve_queue(waiter and attempt)
  -- The line may just have let in another attempt of the same named owner.
  if owner and not mine then mine = reacquire(attempt, owner, ttl, true) end
  if mine then return granted(mine) end
end

-- It may have left for a limit that was lowered.
waiter = waiting > 0 and read_field('w:' .. attempt)
if waiter then return commit(keep_waiting(attempt, waiter, waiter_ttl)) end

if asked_limit and limit ~= asked_limit then
  if limit and (waiting > 0 or (used > 0 and shared_mode == 'p')) then return commit('conflict ' .. text(limit)) end
  limit = asked_limit
  fields.limit = text(limit)
end

-- A reader that re-enters under its name does not queue behind a writer who
-- waits for that reader to leave.
if blocked and owner and mode == 's' and shared_mode == 's' then
  local function ours(field, value) return string.sub(field, 1, 2) == 'h:' and words(value)[6] == owner end
  local all = call('HGETALL', key)
  for i = 1, #all, 2 do
    if ours(all[i], fields[all[i]] or all[i + 1]) then blocked = false end
  end
  -- The line may just have let it in.
  for field, value in pairs(fields) do
    if ours(field, value) then blocked = false end
  end
end

if not blocked and compatible(mode, weight) then return granted(grant(attempt, owner, mode, weight, ttl)) end
if waiter_ttl == 0 then return commit('busy ' .. ms_until_free() .. ' ' .. (holder or '-')) end

local place = text(tail + 1)
local value = table.concat({place, mode, weight, text(ttl), text(now + waiter_ttl), text(now)}, ' ')
fields['#' .. place], fields['w:' .. attempt] = attempt, owner and (value .. ' ' .. owner) or value
set_queue(waiting + 1, head, tail + 1)
extend_record(waiter_ttl)
if unfinished then ask_to_poll(attempt, 1) end
return commit('queued ' .. text(tail - head + 1) .. ' ' .. ms_until_free() .. ' ' .. text(now))

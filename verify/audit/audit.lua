-- audit — one of the lock's actions as it stands, and in the same atomic step
-- a note of what it changed. Not an action of the protocol: Store puts each
-- action in at the mark and sends the whole instead.
--
-- KEYS, ARGV and the answer are the action's own; every key is a record.
--
-- NOTE   seven lines, published on CHANNEL: at, in µs of the server's clock; the
--        action; the key; the attempts that it was sent for, with commas between
--        them; the record before; the record after; who says so, how many messages
--        the action has published, and what it failed with, if it did. Who: the word
--        behind CHANNEL@ in the name of a channel that somebody hears here. A record is - if absent, else its fields lock, period,
--        entries, queue (and behind it who stands at the last place) and h:ATTEMPT, as far as there are any,
--        with a tab between them. After a grant the record after has one field more, next: the first place
--        in the line of whom somebody listens here, and who stands there.
--
-- WHY    The server runs one script at a time, so the notes are every change of
--        the holders in the order in which it happened: no client's clock, and no
--        moment between looking and acting in which it could have been otherwise.
--        They are published, not stored: a full server, a slot that moves and
--        a flush leave them alone, and they leave nothing behind.

local function audit_look(key)
  local lock = redis.pcall('HGET', key, 'lock')
  if type(lock) ~= 'string' then return '-' end
  local got = redis.call('HMGET', key, 'period', 'entries', 'queue', 'shares')
  local more = string.find(lock, '+', 1, true)
  if got[1] then lock = lock .. '\tperiod ' .. got[1] end
  if got[2] and got[2] ~= '' then lock = lock .. '\tentries ' .. got[2] end
  if got[3] and got[3] ~= '' then
    local sum, tail = string.match(got[3], '^(%d+ %d+ (%d+))')
    local last = redis.call('HGET', key, '#' .. tail)
    if not last or last == '' then last = '-' end -- a place that was left
    lock = lock .. '\tqueue ' .. sum .. ' ' .. last
  end
  if not (more and got[4]) then return lock end
  local all, shares = redis.call('HGETALL', key), {}
  for i = 1, #all, 2 do
    if string.sub(all[i], 1, 2) == 'h:' and all[i + 1] ~= '' then
      shares[#shares + 1] = '\t' .. all[i] .. ' ' .. all[i + 1]
    end
  end
  table.sort(shares)
  return lock .. table.concat(shares)
end

-- Who was passed over for the one who was granted the lock: it may only be
-- somebody of whom nobody listens, or who is silent. Some places are looked at, not all of a long line.
local audit_base
for _, word in ipairs(ARGV) do
  if string.sub(word, 1, #'PUSHES') == 'PUSHES' then audit_base = word end
end
local function audit_next(key)
  local line = audit_base and redis.call('HGET', key, 'queue')
  if not line or line == '' then return '' end
  local first, last, silent = string.match(line, '^%d+ (%d+) (%d+)(.*)$')
  local count = string.find(audit_base, '{', 1, true) and 'SHARDNUMSUB' or 'NUMSUB'
  for place = tonumber(first), math.min(tonumber(last), first + 30) do
    place = string.format('%d', place)
    local attempt = redis.call('HGET', key, '#' .. place)
    local client = attempt and string.match(attempt, '^[^/]*')
    if client and not string.find(silent .. ' ', ' ' .. client .. ' ', 1, true) then
      local there = redis.pcall('PUBSUB', count, audit_base .. client)
      if not there.err and there[2] > 0 then return '\tnext ' .. place .. ' ' .. attempt end
    end
  end
  return ''
end

-- One key may be there twice: goroutines of one process that want one lock.
local audit_keys, audit_before, audit_caller = {}, {}, {}
for i, key in ipairs(KEYS) do
  local caller = CALLER
  if audit_before[key] then
    audit_caller[key] = audit_caller[key] .. ',' .. caller
  else
    audit_keys[#audit_keys + 1], audit_before[key], audit_caller[key] = key, audit_look(key), caller
  end
end

-- An action that fails half-way has changed what it has changed, and has told what
-- it has told.
local audit_told, audit_redis = 0, redis
local function audit_count(command, answer)
  if (command == 'PUBLISH' or command == 'SPUBLISH') and type(answer) == 'number' then
    audit_told = audit_told + 1
  end
  return answer
end
local audit_ok, audit_answer = pcall(function()
local redis = setmetatable({
  call = function(command, ...) return audit_count(command, audit_redis.call(command, ...)) end,
  pcall = function(command, ...) return audit_count(command, audit_redis.pcall(command, ...)) end,
}, {__index = audit_redis})
--include action
end)
if not audit_ok and type(audit_answer) == 'string' then audit_answer = {err = audit_answer} end
local audit_failed = audit_ok and '' or ' ' .. string.gsub(audit_answer.err, '[\r\n]', ' ')

local function audit_who()
  local there = redis.pcall('PUBSUB', 'CHANNELS', 'CHANNEL@*')
  return not there.err and there[1] and string.match(there[1], '@([^@]*)$') or '-'
end

local audit_at, audit_here
for i, key in ipairs(audit_keys) do
  local after = audit_look(key)
  if after ~= audit_before[key] or i == 1 and not audit_ok and audit_told > 0 then
    if string.match(after, '^%d+') ~= string.match(audit_before[key], '^%d+') then
      after = after .. audit_next(key)
    end
    if not audit_at then
      local clock = redis.call('TIME')
      audit_at, audit_here = string.format('%.0f', clock[1] * 1000000 + clock[2]), audit_who()
    end
    redis.pcall('PUBLISH', 'CHANNEL', table.concat({audit_at, 'ACTION', key, audit_caller[key],
      audit_before[key], after, audit_here .. ' ' .. audit_told .. audit_failed}, '\n'))
  end
end
return audit_answer

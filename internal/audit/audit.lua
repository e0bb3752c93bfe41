-- audit — a script with a note of what it has changed, in the same atomic step. It is no
-- script of the protocol: Store puts each script in at the mark, and sends the whole.
--
-- KEYS, ARGV and the answer are those of the script; every key is a record.
--
-- NOTE   Seven lines, published on CHANNEL: the time, in µs of the server's clock; the
--        script; the key; the attempts for which it was sent, separated by commas; the
--        record before; the record after; and one line of three parts. These are the server's
--        name, the number of messages that the script has published, and the error
--        if it failed. The server's name is the word after CHANNEL@ in the name of a channel
--        that has a subscriber on this server.
--        A record is - if absent. Otherwise it is the fields lock, period, entries, queue
--        (and the attempt at the last position) and h:ATTEMPT, if they exist, separated by
--        tabs. After a grant the record after has one field more, next: the first position in
--        the queue whose client subscribes here, and its attempt.
--
-- WHY    The server runs one script at a time. So the notes are all changes of the holders,
--        in their order. No client's clock matters, and nothing happens between a read
--        and a write. The notes are published and not stored: a full server, a moved
--        slot and a flush do not matter, and nothing remains.

-- audit_alone returns the field lock without the only waiter that is part of it, and that waiter.
local function audit_alone(lock) return string.match(lock, '^(.* %+)1 %d+ %d+ %d+ 0%d+ (%S+)$') end

-- A waiter that is part of the field lock is written as the queue that it is.
local function audit_read(key)
  local lock = redis.pcall('HGET', key, 'lock')
  if type(lock) ~= 'string' then return '-' end
  local short, alone = audit_alone(lock)
  lock = short or lock
  local got = redis.call('HMGET', key, 'period', 'entries', 'queue', 'shares')
  local more = string.find(lock, '+', 1, true)
  if got[1] then lock = lock .. '\tperiod ' .. got[1] end
  if got[2] and got[2] ~= '' then lock = lock .. '\tentries ' .. got[2] end
  if got[3] and got[3] ~= '' then
    local sum, tail = string.match(got[3], '^(%d+ %d+ (%d+))')
    local last = redis.call('HGET', key, '#' .. tail)
    if not last or last == '' then last = '-' end -- that waiter has left
    lock = lock .. '\tqueue ' .. sum .. ' ' .. last
  end
  if alone then lock = lock .. '\tqueue 1 1 1 ' .. alone end
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

-- audit_next finds the first waiter that a grant has skipped although its client subscribes
-- and is not silent, and the waiter is not passed over. There must be none. It reads some positions, and not all of a long queue.
local audit_prefix
for _, word in ipairs(ARGV) do
  if string.sub(word, 1, #'PUSHES') == 'PUSHES' then audit_prefix = word end
end
local function audit_next(key)
  local got = audit_prefix and redis.call('HMGET', key, 'queue', 'lock') or {}
  local _, alone = audit_alone(got[2] or '')
  local queue = alone and '1 1 1' or got[1]
  if not queue or queue == '' then return '' end
  local first, last, silent = string.match(queue, '^%d+ (%d+) (%d+)(.*)$')
  local asked_end, answers = string.match(silent, ' %?%d+:(%d+)([:%d]*)')
  local count = string.find(audit_prefix, '{', 1, true) and 'SHARDNUMSUB' or 'NUMSUB'
  for position = tonumber(first), math.min(tonumber(last), first + 30) do
    position = string.format('%d', position)
    local attempt = alone or redis.call('HGET', key, '#' .. position)
    local client = attempt and string.match(attempt, '^[^/]*')
    local passed = asked_end and position + 0 < tonumber(asked_end) and
      not string.find(answers .. ':', ':' .. position .. ':', 1, true)
    if client and not passed and not string.find(silent .. ' ', ' ' .. client .. ' ', 1, true) then
      local there = redis.pcall('PUBSUB', count, audit_prefix .. client)
      if not there.err and there[2] > 0 then return '\tnext ' .. position .. ' ' .. attempt end
    end
  end
  return ''
end

-- One request may have the same key twice, for goroutines of one process.
local audit_keys, audit_before, audit_caller = {}, {}, {}
for i, key in ipairs(KEYS) do
  local caller = CALLER
  if audit_before[key] then
    audit_caller[key] = audit_caller[key] .. ',' .. caller
  else
    audit_keys[#audit_keys + 1], audit_before[key], audit_caller[key] = key, audit_read(key), caller
  end
end

-- If a script fails in the middle, its writes and its pushes before that remain.
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

local function audit_server()
  local there = redis.pcall('PUBSUB', 'CHANNELS', 'CHANNEL@*')
  return not there.err and there[1] and string.match(there[1], '@([^@]*)$') or '-'
end

local audit_at, audit_here
for i, key in ipairs(audit_keys) do
  local after = audit_read(key)
  if after ~= audit_before[key] or i == 1 and not audit_ok and audit_told > 0 then
    if string.match(after, '^%d+') ~= string.match(audit_before[key], '^%d+') then
      after = after .. audit_next(key)
    end
    if not audit_at then
      local clock = redis.call('TIME')
      audit_at, audit_here = string.format('%.0f', clock[1] * 1000000 + clock[2]), audit_server()
    end
    redis.pcall('PUBLISH', 'CHANNEL', table.concat({audit_at, 'ACTION', key, audit_caller[key],
      audit_before[key], after, audit_here .. ' ' .. audit_told .. audit_failed}, '\n'))
  end
end
return audit_answer

-- audit — one of the lock's actions as it stands, and in the same atomic step
-- a note of what it changed. Not an action of the protocol: Store puts each
-- action in at the mark and sends the whole instead.
--
-- KEYS, ARGV and the answer are the action's own; every key is a record.
--
-- NOTE   six lines, published on CHANNEL: at, in µs of the server's clock; the
--        action; the key; the attempts that it was sent for, with commas between
--        them; the record before; the record after. A record is - if absent, else its fields lock, turn
--        and h:ATTEMPT, as far as there are any, with a tab between them.
--
-- WHY    The server runs one script at a time, so the notes are every change of
--        the holders in the order in which it happened: no client's clock, and no
--        moment between looking and acting in which it could have been otherwise.
--        They are published, not stored: a full server, a slot that moves and
--        a flush leave them alone, and they leave nothing behind.

local function audit_look(key)
  local lock = redis.pcall('HGET', key, 'lock')
  if type(lock) ~= 'string' then return '-' end
  local turn = redis.call('HGET', key, 'turn')
  if turn then lock = lock .. '\tturn ' .. turn end
  if not string.find(lock, '+', 1, true) then return lock end
  local all, shares = redis.call('HGETALL', key), {}
  for i = 1, #all, 2 do
    if string.sub(all[i], 1, 2) == 'h:' then
      shares[#shares + 1] = '\t' .. all[i] .. ' ' .. all[i + 1]
    end
  end
  table.sort(shares)
  return lock .. table.concat(shares)
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

local audit_answer = (function()
--include action
end)()

local audit_at
for _, key in ipairs(audit_keys) do
  local after = audit_look(key)
  if after ~= audit_before[key] then
    if not audit_at then
      local clock = redis.call('TIME')
      audit_at = string.format('%.0f', clock[1] * 1000000 + clock[2])
    end
    redis.pcall('PUBLISH', 'CHANNEL',
      table.concat({audit_at, 'ACTION', key, audit_caller[key], audit_before[key], after}, '\n'))
  end
end
return audit_answer

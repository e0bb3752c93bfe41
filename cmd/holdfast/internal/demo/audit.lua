-- audit — one of the lock's actions as it stands, and in the same atomic step
-- a note of what it changed in the lock's record. Not an action of the
-- protocol: the demo puts each action in at the mark and runs the whole.
--
-- KEYS, ARGV and the answer are the action's own; the first key is the record.
--
-- NOTE   <at> <action> <caller> <holder> <fence> <expiry> <holder> <fence> <expiry>
--        at in µs of the server's clock; the record before and after; - for
--        what is absent. Notes are appended to the list holdfast-demo:audit.
--
-- WHY    The server runs one script at a time, so the list is every change of
--        the holder in the order in which it happened: no client's clock, and no
--        moment between looking and acting in which it could have been otherwise.

local function audit_look()
  local lock = redis.call('HGET', KEYS[1], 'lock') or ''
  local fence, lease, holder = string.match(lock, '^(%d+) ?(%-?%d*) ?(%S*)')
  if not fence then return '- - -' end
  if holder == '' or holder == '-' then return '- ' .. fence .. ' -' end
  return holder .. ' ' .. fence .. ' ' .. string.format('%.0f', math.floor(fence / 1000) + lease)
end
local audit_before = audit_look()

local audit_answer = (function()
--include action
end)()

local audit_after = audit_look()
if audit_before ~= audit_after then
  local clock = redis.call('TIME')
  local at = string.format('%.0f', clock[1] * 1000000 + clock[2])
  redis.call('RPUSH', 'holdfast-demo:audit', table.concat({at, 'ACTION', ARGV[1], audit_before, audit_after}, ' '))
end
return audit_answer

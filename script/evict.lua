#!lua flags=allow-oom
-- evict — an operator ends the holds of a lock.
--
-- KEYS   1 key             the lock's record
-- ARGV   1 by              the operator, one word
-- ARGV   2 reason          the reason, one word (spaces encoded)
-- ARGV   3 only            the token of the one hold to end; 0: all holds
-- ARGV   4 retention       ms for which the record outlives its last lease
-- ARGV   5 channel_prefix  prefix of the push channels
--
-- ANSWER evicted <holds>  so many holds have ended, and the fence has risen above them
-- ANSWER free             nobody held the lock
-- ANSWER changed <fence>  no hold has this token any more; nothing was done
-- ERROR  FORMAT           the record has a later format
--
-- HOLDS  I3 I7. The same step grants the next waiter. It reads all shared holders and all
--        holders of permits. Each evicted holder is pushed: evicted <attempt>.
-- WHY    The fence rises before the next grant. So a resource that checks tokens can
--        reject the evicted holder at once.

local key, by, reason, only = KEYS[1], ARGV[1], ARGV[2], ARGV[3]
local retention, channel_prefix = tonumber(ARGV[4]), ARGV[5]

--include record

if not fence then return 'free' end
expire()
local over, names = {}, {}
if holder and (only == '0' or text(fence) == only) then
  for _, attempt in ipairs(words(entries or holder)) do names[#names + 1] = attempt end
  over[1] = text(fence)
  end_exclusive()
elseif used > 0 then
  for _, h in ipairs(end_shares(function(token) return only == '0' or token == only end)) do
    over[#over + 1], names[#names + 1] = h[2], h[3]
  end
end
if #over == 0 then
  if only ~= '0' then return commit('changed ' .. text(fence)) end
  serve_queue()
  return commit('free')
end
for _, token in ipairs(over) do note_lost(token) end
fence = math.max(micros, fence + 1)
extend_record(0)
for _, attempt in ipairs(names) do send(attempt, 'evicted ' .. attempt) end
fields.evicted = text(now) .. ' ' .. by .. ' ' .. reason .. ' ' .. table.concat(names, ' ')
serve_queue()
return commit('evicted ' .. #over)

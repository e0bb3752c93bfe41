#!lua flags=allow-oom
-- evict — an operator ends the holds of a lock.
--
-- KEYS   1 key             the lock's record
-- ARGV   1 by              the operator, one word
-- ARGV   2 reason          the reason, one word (spaces encoded)
-- ARGV   3 only            the token of the one hold to end; 0: all holds; force: the record goes, with
--                          all waiters, whatever the key holds, and one without holders takes its place
-- ARGV   4 retention       ms for which the record outlives its last lease
-- ARGV   5 channel_prefix  prefix of the push channels
--
-- ANSWER evicted <holds>  so many holds have ended, and the fence has risen above them; with force: 1
-- ANSWER free             nobody held the lock; with force: there was no record
-- ANSWER changed <fence>  no hold has this token any more; nothing was done
-- ERROR  FORMAT           the record has a later format, or no version wrote it; not with force
--
-- HOLDS  I3 I7. The same step grants the next waiter. It reads all shared holders and all
--        holders of permits, however many: they end at one moment. Each evicted holder is
--        pushed: evicted <attempt>. The record names the first 256 of them.
-- WHY    The fence rises before the next grant. So a resource that checks tokens can
--        reject the evicted holder at once.

local key, by, reason, only = KEYS[1], ARGV[1], ARGV[2], ARGV[3]
local retention, channel_prefix = tonumber(ARGV[4]), ARGV[5]

-- With force, the step believes nothing but the fence, if it is one. The key may hold anything.
-- PEXPIRE deletes it, because users who may lock may not always run DEL.
if only == 'force' then
  local call = redis.call
  if call('PTTL', key) == -2 then return 'free' end
  local last, clock = redis.pcall('HGET', key, 'lock'), call('TIME')
  local now = string.format('%d', clock[1] * 1000 + math.floor(clock[2] / 1000))
  local micros = clock[1] * 1000000 + clock[2]
  local word = type(last) == 'string' and string.match(last, '^%d+') or '0'
  -- 9e15: see most_token in record.lua.
  local fence = #word <= 16 and tonumber(word) < 8999999999999999 and tonumber(word) or 0
  local token = math.max(micros, fence + 1)
  local life = string.format('%d', math.max(0, math.ceil((token - micros) / 1000)) + retention)
  token = string.format('%d', token)
  call('PEXPIRE', key, '-1')
  call('HSET', key, 'lock', token, 'birth', token, 'evicted', now .. ' ' .. by .. ' ' .. reason)
  call('PEXPIRE', key, life)
  return 'evicted 1'
end

--include record

if not fence then return 'free' end
expire()
local over, names = {}, {}
if holder and (only == '0' or text(fence) == only) then
  for _, attempt in ipairs(words(entries or holder)) do names[#names + 1] = attempt end
  over[1] = text(fence)
  end_exclusive()
elseif used > 0 then
  local all, gone, left, bound = call('HGETALL', key), {}, 0, nil
  for i = 1, #all, 2 do
    local value = fields[all[i]] or all[i + 1]
    if value ~= '' and string.sub(all[i], 1, 2) == 'h:' then
      local h = read_share(string.sub(all[i], 3), value)
      if only == '0' or h[4] == only then
        fields[all[i]] = ''
        gone[#gone + 1] = {tonumber(h[4]), h[4], string.sub(all[i], 3)}
      else
        left, bound = left + h[3], math.min(bound or h[2], h[2])
      end
    end
  end
  if #gone > 0 then
    soonest, sweep_cursor = bound, '0'
    set_shares(left)
  end
  table.sort(gone, function(a, b) return a[1] < b[1] end)
  for _, h in ipairs(gone) do over[#over + 1], names[#names + 1] = h[2], h[3] end
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
-- The renewal of a hold that has ended reads all of these names.
local named = math.min(#names, 256)
fields.evicted = text(now) .. ' ' .. by .. ' ' .. reason .. ' ' .. table.concat(names, ' ', 1, named)
serve_queue()
return commit('evicted ' .. #over)

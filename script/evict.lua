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
-- ARGV   6 request         optional: the ID of this eviction, which no other one has
-- ARGV   7 upto            optional: no hold with a higher token ends. It was granted after the operator decided.
--                          With force: no record with a higher fence goes; 0: one whose fence cannot be read
-- ARGV   8 how             optional: ask: the holds are to end, and go on until they are released or their leases have
--                          ended; nothing prolongs them. Otherwise they end in this step
--
-- ANSWER evicted <holds>  so many holds have ended, and the fence has risen above them; with force: 1. With ask, so
--                         many are to end, and the fence is as it was
-- ANSWER free             nobody held the lock; with force: there was no record
-- ANSWER changed <fence>  no hold has this token any more, or with force the fence is above upto; nothing was done
-- ERROR  FORMAT           the record has a later format, or no version wrote it; not with force
--
-- HOLDS  I1 I3 I7. What ends in this step is followed by the next waiter in the same step. It reads all
--        shared holders and all holders of permits, however many: they end at one moment. Each evicted
--        holder is pushed: evicted <attempt>. The record names the first 256 of them. A lock that was
--        released and is kept has no holder that could be asked: it ends in this step.
-- REPEATS yes: the record remembers the last request; only and upto spare every hold that was granted later. With
--        force upto spares every later record, as each one has a higher fence. A hold that is to end
--        stays so, whatever copy comes, and a copy with ask ends none.
-- WHY    The fence rises before the next grant. So a resource that checks tokens can
--        reject the evicted holder at once.

local key, by, reason, only = KEYS[1], ARGV[1], ARGV[2], ARGV[3]
local retention, channel_prefix = tonumber(ARGV[4]), ARGV[5]
local request, upto, how = ARGV[6], tonumber(ARGV[7]), ARGV[8]

-- With force, the step believes nothing but the fence, if it is one. It writes as commit does. If
-- the key holds no hash, PEXPIRE deletes it first, because users who lock may not run DEL.
if only == 'force' then
  local call = redis.call
  if call('PTTL', key) == -2 then return 'free' end
  -- A copy of the request finds what the first has left.
  local before = redis.pcall('HGET', key, 'eviction')
  if request and before == request .. ' 1' then return 'evicted 1' end
  local last, clock = redis.pcall('HGET', key, 'lock'), call('TIME')
  local other = type(last) == 'table'
  if other and not string.find(last.err, 'WRONGTYPE', 1, true) then return last end
  local micros, word = clock[1] * 1000000 + clock[2], string.match(not other and last or '', '^%d+') or '0'
  -- Above most_token of record.lua, it is no fence.
  local fence = #word <= 16 and tonumber(word) < 8999999999999999 and tonumber(word) or 0
  if upto and fence > upto then return 'changed ' .. string.format('%d', fence) end
  fence = math.max(micros, fence + 1)
  local life = string.format('%d', math.ceil((fence - micros) / 1000) + retention)
  local token = string.format('%d', fence)
  local said = string.format('%d', math.floor(micros / 1000)) .. ' ' .. by .. ' ' .. reason
  local made = {'lock', token, 'birth', token, 'evicted', said}
  if request then made[7], made[8] = 'eviction', request .. ' 1' end
  local gone, all = {}, not other and call('HGETALL', key) or {}
  for i = 1, #all, 2 do
    local field = all[i]
    local kept = field == 'lock' or field == 'birth' or field == 'evicted' or request and field == 'eviction'
    if not kept then gone[#gone + 1] = field end
  end
  call('PEXPIRE', key, life)
  -- PEXPIRE has deleted the record, see set_record_ttl in record.lua.
  if call('PTTL', key) == -2 then return 'free' end
  if other then
    local check, known, may = redis.acl_check_cmd, true, true
    if check then known, may = pcall(check, 'hset', key, 'f', 'v') end
    if known and may then call('PEXPIRE', key, '-1') end
  end
  for first = 1, #gone, 500 do
    local part = {unpack(made)}
    for i = first, math.min(first + 499, #gone) do part[#part + 1], part[#part + 2] = gone[i], '' end
    call('HSET', key, unpack(part))
  end
  if #gone == 0 then call('HSET', key, unpack(made)) end
  call('PEXPIRE', key, life)
  for first = 1, #gone, 500 do redis.pcall('HDEL', key, unpack(gone, first, math.min(first + 499, #gone))) end
  return 'evicted 1'
end

--include record

if not fence then return 'free' end
local last = request and read_field('eviction')
local evicted_by, count = string.match(last or '', '^(%S+) ([1-9]%d*)$')
if last and (not count or #count > 15) then refuse('eviction') end
if last and evicted_by == request then return 'evicted ' .. count end
expire()
upto = upto or fence
local over, names, asked = {}, {}, 0
local function meant(token) return tonumber(token) <= upto and (only == '0' or token == only) end
if holder and meant(text(fence)) then
  for _, attempt in ipairs(words(entries or holder)) do names[#names + 1] = attempt end
  if how == 'ask' and holder ~= '%kept' then
    ending, provisional, asked = true, false, 1
  else
    over[1] = text(fence)
    end_exclusive()
  end
elseif used > 0 then
  local all, gone, left, bound = call('HGETALL', key), {}, 0, nil
  for i = 1, #all, 2 do
    local value = fields[all[i]] or all[i + 1]
    if value ~= '' and string.sub(all[i], 1, 2) == 'h:' then
      local attempt = string.sub(all[i], 3)
      local h = read_share(attempt, value)
      if meant(h[4]) then gone[#gone + 1] = {tonumber(h[4]), h[4], attempt} end
      if meant(h[4]) and how ~= 'ask' then
        fields[all[i]] = ''
      else
        left, bound = left + h[3], math.min(bound or h[2], h[2])
        if meant(h[4]) then fields[all[i]] = string.sub(value, 1, 2) .. '00' .. string.sub(value, 3 + #h.mark) end
      end
    end
  end
  if #gone > 0 and how ~= 'ask' then
    soonest, sweep_cursor = bound, '0'
    set_shares(left)
  end
  table.sort(gone, function(a, b) return a[1] < b[1] end)
  for _, h in ipairs(gone) do over[#over + 1], names[#names + 1] = h[2], h[3] end
  if how == 'ask' then over, asked = {}, #gone end
end
if #over + asked == 0 then
  if only ~= '0' then return commit('changed ' .. text(fence)) end
  serve_queue()
  return commit('free')
end
for _, token in ipairs(over) do note_lost(token) end
if #over > 0 then fence = math.max(micros, fence + 1) end
extend_record(0)
for _, attempt in ipairs(names) do send(attempt, 'evicted ' .. attempt) end
-- The renewal of a hold that has ended reads all of these names.
local named = math.min(#names, 256)
fields.evicted = text(now) .. ' ' .. by .. ' ' .. reason .. ' ' .. table.concat(names, ' ', 1, named)
if request then fields.eviction = request .. ' ' .. text(#over + asked) end
serve_queue()
return commit('evicted ' .. text(#over + asked))

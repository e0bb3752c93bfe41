#!lua
-- acquire_free — take those of several mutexes that are free.
--
-- KEYS   n key         the records
-- ARGV   1 ttl         lease in ms, at least 1
-- ARGV   2 record_ttl  ms for which the records live: ttl and the retention after it
-- ARGV   n attempt     the acquisitions, one for each key, from argument 3 on
--
-- ANSWER granted <token> <each>  each: for every key, in order, 1 if it was granted with
--                                this token, or - if it was not and nothing has changed
--
-- HOLDS  I1 I3 I5. For what it does not grant, the client sends acquire: a repeated
--        request, a lock that is held, a key that holds no record.
-- REPEATS no: as acquire.
-- WHY    Starting a script is most of its cost. So the acquisitions of many goroutines of
--        a process share one start. They remain independent of each other.

local ttl, record_ttl = ARGV[1], ARGV[2]
local clock = redis.call('TIME')
local token = clock[1] .. string.sub('00000' .. clock[2], -6)
local fence, hold = tonumber(token), token .. ' ' .. ttl .. ' '
-- For each key, a local costs less than a field.
local call, find = redis.pcall, string.find
local each = {}
for i, key in ipairs(KEYS) do
  local last, known, done = call('HGET', key, 'lock'), nil, nil
  -- PEXPIRE comes first, see commit in record.lua. A hash without the field lock is not ours.
  if not last then
    known = call('PTTL', key) == -2 and call('PEXPIRE', key, record_ttl)
    if type(known) == 'number' then
      done = call('HSET', key, 'lock', hold .. ARGV[i + 2], 'birth', token)
    end
    if known == 0 and type(done) == 'number' then call('PEXPIRE', key, record_ttl) end
  elseif #last == 16 and find(last, '^[1-9]%d+$') and fence > tonumber(last) then
    known = call('PEXPIRE', key, record_ttl)
    if type(known) == 'number' then done = call('HSET', key, 'lock', hold .. ARGV[i + 2]) end
    -- PEXPIRE has deleted the record, see set_record_ttl in record.lua.
    if done == 1 then call('HDEL', key, 'lock') end
  end
  each[i] = done == (last and 0 or 2) and '1' or '-'
end
return 'granted ' .. token .. ' ' .. table.concat(each)

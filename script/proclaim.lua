-- proclaim — the leader says what it stands for, or that it stands down.
--
-- KEYS   1 key        the lock's record
-- ARGV   1 attempt    the leader
-- ARGV   2 token      of its grant
-- ARGV   3 value      one word; empty: it leads no more
-- ARGV   4 watch      channel of those who observe the election
-- ARGV   5 retention  ms for which the record outlives its last lease
--
-- ANSWER proclaimed   those who observe were told
-- ANSWER gone         the attempt does not hold the lock with this token any more
-- ERROR  FORMAT       the record is of a later format
--
-- HOLDS  I2 I4 I5. The value is written beside the token that it belongs to,
--        so the next leader is never seen with the value of the one before.
-- WHY    Between a look and a write the lead could pass to somebody else.

local key, attempt, token, value = KEYS[1], ARGV[1], ARGV[2], ARGV[3]
local watch, retention, base = ARGV[4], tonumber(ARGV[5]), ''

--include record

if not holds(attempt) or text(fence) ~= token or expiry <= now then return 'gone' end
local news = 'leader ' .. token
keep(0)
if value == '' then
  news = 'none ' .. token
  call('HDEL', key, 'value')
else
  call('HSET', key, 'value', token .. ' ' .. value)
end
-- Who cannot be told looks by itself when the lease may be over.
local verb = string.find(watch, '{', 1, true) and 'SPUBLISH' or 'PUBLISH'
redis.pcall(verb, watch, news)
return 'proclaimed'

#!lua flags=allow-oom
-- proclaim — the leader says what it stands for, or that it stands down.
--
-- KEYS   1 key        the lock's record
-- ARGV   1 attempt    the leader
-- ARGV   2 token      of its grant
-- ARGV   3 number     of the proclamation, counted by this leader
-- ARGV   4 value      one word; empty: it leads no more
-- ARGV   5 watch      channel of those who observe the election
-- ARGV   6 retention  ms for which the record outlives its last lease
--
-- ANSWER proclaimed   those who observe were told
-- ANSWER late         a later proclamation of this leader stands; nothing has changed
-- ANSWER gone         the attempt does not hold the lock with this token any more
-- ERROR  FORMAT       the record is of a later format
--
-- HOLDS  I2 I4 I5. The value is written beside the token that it belongs to,
--        so the next leader is never seen with the value of the one before.
--        A request that is long on its way does not undo a later one.
-- WHY    Between a look and a write the lead could pass to somebody else.

local key, attempt, token, number = KEYS[1], ARGV[1], ARGV[2], ARGV[3]
local value, watch, retention, channel_prefix = ARGV[4], ARGV[5], tonumber(ARGV[6]), ''

--include record

if not holds(attempt) or text(fence) ~= token or expiry <= now then return 'gone' end
local said = words(read_field('leader') or '')
if said[1] == token and tonumber(said[2]) > tonumber(number) then return 'late' end
extend_record(0)
local proclaimed = token .. ' ' .. number
fields.leader = value == '' and proclaimed or proclaimed .. ' ' .. value
local news = value == '' and 'none ' .. token or 'leader ' .. token
-- Who cannot be told looks by itself when the lease may be over.
local verb = string.find(watch, '{', 1, true) and 'SPUBLISH' or 'PUBLISH'
pushes[1] = {verb, watch, news}
return commit('proclaimed')

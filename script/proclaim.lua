#!lua flags=allow-oom
-- proclaim — the leader publishes a value, or that it leads no more.
--
-- KEYS   1 key        the lock's record
-- ARGV   1 attempt    the leader
-- ARGV   2 token      the token of its grant
-- ARGV   3 number     number of this proclamation; the leader counts them
-- ARGV   4 value      one word; empty: it leads no more
-- ARGV   5 watch      the channel of the election's observers
-- ARGV   6 retention  ms for which the record outlives its last lease
--
-- ANSWER proclaimed   the value is written, and the observers were pushed
-- ANSWER late         this leader has made a later proclamation; nothing has changed
-- ANSWER gone         the attempt does not hold the lock with this token any more
-- ERROR  FORMAT       the record has a later format, or no version wrote it
--
-- HOLDS  I2 I4 I5. The value is written with its token. So nobody sees the next leader with
--        the value of the one before. A late request does not reverse a later one.
-- REPEATS yes: a copy has an older number, or the token of a former leader.
-- WHY    Between a read and a write another client could become the leader.

local key, attempt, token, number = KEYS[1], ARGV[1], ARGV[2], ARGV[3]
local value, watch, retention, channel_prefix = ARGV[4], ARGV[5], tonumber(ARGV[6]), ''

--include record

if not holds(attempt) or text(fence) ~= token or expiry <= now then return 'gone' end
local said = read_words('leader', leader, leader_gone)
if said and said[1] == token and tonumber(said[2]) > tonumber(number) then return 'late' end
extend_record(0)
local proclaimed = token .. ' ' .. number
fields.leader = value == '' and proclaimed or proclaimed .. ' ' .. value
local news = value == '' and 'none ' .. token or 'leader ' .. token
-- An observer without pushes reads again when the lease may have expired.
local verb = string.find(watch, '{', 1, true) and 'SPUBLISH' or 'PUBLISH'
pushes[1] = {verb, watch, news}
return commit('proclaimed')

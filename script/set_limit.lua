#!lua flags=allow-oom
-- set_limit — change the number of permits.
--
-- KEYS   1 key             the lock's record
-- ARGV   1 permits         the new number of permits; 0: grant none, and keep the waiters
-- ARGV   2 retention       ms for which the record, and so the limit, outlives its last lease
-- ARGV   3 channel_prefix  prefix of the push channels
--
-- ANSWER set <used>  the limit is in force; so many permits are held now, perhaps more than the limit
-- ANSWER idle        the same, but no permit is held and nobody waits. An acquisition that takes the limit of
--                    the record finds it; another one sets its own, unless it is 0
-- ERROR  FORMAT      the record has a later format, or no version wrote it
-- ERROR  ERR         permits is less than 0
--
-- HOLDS  I1 I2 I5 I6 I7. A lower limit takes no permit away: the lock grants nothing until
--        enough permits were released. A waiter that wants more than the limit leaves the
--        queue when it comes to its turn, or when it asks. Its poll is answered gone, and
--        its next acquire is answered with the limit.
-- REPEATS no: a late copy takes a later change back.
-- WHY    If the limit is higher, waiters may hold. The same step grants the lock to them.

local key, permits, retention, channel_prefix = KEYS[1], tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[3]

--include record

if permits < 0 then return redis.error_reply('ERR set_limit: the number of permits is below 0') end
expire()
if not fence then
  fence, birth = micros, micros
  fields.birth = text(birth)
end
extend_record(0)
limit = permits
fields.limit = text(limit)
serve_queue()
if waiting > 0 or shared_mode == 'p' then return commit('set ' .. text(used)) end
return commit('idle')

#!lua flags=allow-oom
-- poll — a waiter's heartbeat and second look.
--
-- KEYS   1 key             the lock's record
-- ARGV   1 attempt         the waiter
-- ARGV   2 ttl             lease in ms, for an answer that finds the lock granted
-- ARGV   3 retention       ms for which the record outlives its last lease
-- ARGV   4 waiter_ttl      ms for which the place is kept from now on
-- ARGV   5 channel_prefix  channel prefix of the pushes
-- ARGV   6 owner           as given to acquire
--
-- ANSWER granted <token> <waiting>  the lock is held for ttl from now on
-- ANSWER queued <place> <left> <now>  still in the line; now: as in acquire
-- ANSWER gone                       neither waiting nor holding: ask again with acquire
-- ERROR  FORMAT                     the record is of a later format
--
-- HOLDS  I5 I6 I7. It ends expired holds and hands over, so that one live
--        waiter is enough to move a line whose holder died.
-- WHY    A push can be lost. The poll finds a grant that was not heard.

local key, attempt, ttl, retention = KEYS[1], ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local waiter_ttl, channel_prefix, owner = tonumber(ARGV[4]), ARGV[5], ARGV[6]

--include record

expire()
clear_silent(attempt)
local waiter = waiting > 0 and read_field('w:' .. attempt)
-- Only a waiter enters under its named owner: one that has cancelled does not
-- come back by a poll that was long on its way.
local mine = reacquire(attempt, owner, ttl, waiter)
if not mine and waiting > 0 then
  mine = serve_queue(waiter and attempt)
  -- The line may just have let in another attempt of the same named owner.
  if owner and not mine then mine = reacquire(attempt, owner, ttl, waiter) end
  -- It may have left for a limit that was lowered.
  waiter = waiting > 0 and read_field('w:' .. attempt)
  if waiter and not mine then return commit(keep_waiting(attempt, waiter, waiter_ttl)) end
end
if mine then return commit('granted ' .. mine .. ' ' .. text(waiting)) end
return commit('gone')

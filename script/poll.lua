#!lua flags=allow-oom
-- poll — a waiter asks for its state, and keeps its position.
--
-- KEYS   1 key             the lock's record
-- ARGV   1 attempt         the waiter
-- ARGV   2 ttl             lease in ms, if the answer is granted
-- ARGV   3 retention       ms for which the record outlives its last lease
-- ARGV   4 waiter_ttl      ms for which the waiter keeps its position from now on
-- ARGV   5 channel_prefix  prefix of the push channels
-- ARGV   6 owner           as in acquire
--
-- ANSWER granted <token> <waiting>      the attempt holds the lock for ttl from now on
-- ANSWER queued <position> <left> <now> it still waits; left and now: as in acquire
-- ANSWER gone                           it neither waits nor holds: send acquire again
-- ERROR  FORMAT                         the record has a later format, or no version wrote it
--
-- HOLDS  I5 I6 I7. It ends expired holds and serves the queue. So if a holder has died, one
--        live waiter is enough to move the queue on.
-- REPEATS yes: an attempt that has left the queue and holds nothing is answered gone.
-- WHY    A push can be lost. A poll finds a grant whose push did not arrive.

local key, attempt, ttl, retention = KEYS[1], ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local waiter_ttl, channel_prefix, owner = tonumber(ARGV[4]), ARGV[5], ARGV[6]

--include record

expire()
clear_silent(attempt)
local waiter = waiting > 0 and read_waiter(attempt)
-- Only a waiter may become an entry of its owner's hold. So a late poll does not bring
-- back an attempt that was cancelled.
local mine = reacquire(attempt, owner, ttl, waiter)
if not mine and waiting > 0 then
  mine = serve_queue(waiter and attempt)
  -- This step may have granted the lock to another attempt of the same owner.
  if owner and not mine then mine = reacquire(attempt, owner, ttl, waiter) end
  -- The queue may have removed it, because the limit was lowered.
  waiter = waiting > 0 and read_waiter(attempt)
  if waiter and not mine then return commit(keep_waiting(attempt, waiter, waiter_ttl)) end
end
if mine then return commit('granted ' .. mine .. ' ' .. text(waiting)) end
return commit('gone')

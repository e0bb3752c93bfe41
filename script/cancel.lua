#!lua flags=allow-oom
-- cancel — withdraw an acquisition that is unwanted or whose outcome is unknown.
--
-- KEYS   1 key             the lock's record
-- ARGV   1 attempt         the acquisition
-- ARGV   2 retention       ms for which the record outlives its last lease
-- ARGV   3 channel_prefix  prefix of the push channels
-- ARGV   4 owner           as in acquire
--
-- ANSWER withdrawn  the attempt was in the wait queue and has left it
-- ANSWER released   the attempt held the lock; its hold, or its entry, has ended
-- ANSWER none       the record does not know the attempt; its request may still be under way
-- ERROR  FORMAT     the record has a later format, or no version wrote it
--
-- HOLDS  I5 I6 I7. If the lock was granted in the meantime, the next waiter gets it at once.
-- REPEATS yes: a copy can only take from an attempt that is not wanted any more.
-- WHY    Between two steps the queue could grant the lock to the attempt that leaves.

local key, attempt, retention = KEYS[1], ARGV[1], tonumber(ARGV[2])
local channel_prefix, owner = ARGV[3], ARGV[4]

--include record

local answer
local waiter = read_waiter(attempt)
if waiter then
  leave_queue(attempt, waiter[1])
  answer = 'withdrawn'
elseif holds(attempt, owner) then
  if expired_for_all() or remove_entry(attempt) > 0 then return commit('released') end
  answer = 'released'
else
  local share = read_share(attempt)
  if not share then return 'none' end
  fields['h:' .. attempt] = ''
  set_shares(used - share[3])
  answer = 'released'
end
expire()
serve_queue()
return commit(answer)

#!lua flags=allow-oom
-- cancel — undo an acquisition of which the outcome is unknown or no longer wanted.
--
-- KEYS   1 key             the lock's record
-- ARGV   1 attempt         the acquisition
-- ARGV   2 retention       ms for which the record outlives its last lease
-- ARGV   3 channel_prefix  channel prefix of the pushes
-- ARGV   4 owner           as given to acquire
--
-- ANSWER withdrawn  it stood in the line and stands there no more
-- ANSWER released   it had been granted; the hold, or this entry of it, has ended
-- ANSWER none       the record does not know it (yet: a request may still be under way)
-- ERROR  FORMAT     the record is of a later format
--
-- HOLDS  I5 I6 I7. A grant that crosses the cancelling is given on at once.
-- WHY    Leaving the line and releasing must be one step: between two, the
--        line could grant the lock to the one who leaves.

local key, attempt, retention = KEYS[1], ARGV[1], tonumber(ARGV[2])
local channel_prefix, owner = ARGV[3], ARGV[4]

--include record

local answer
local waiter = read_field('w:' .. attempt)
if waiter then
  leave_queue(attempt, words(waiter)[1])
  answer = 'withdrawn'
elseif holds(attempt, owner) then
  local rest = {}
  for _, entry in ipairs(words(entries or '')) do
    if entry ~= attempt then rest[#rest + 1] = entry end
  end
  if #rest > 0 and expiry > now then
    extend_record(0)
    entries = table.concat(rest, ' ')
    fields.entries = entries
    return commit('released')
  end
  -- What is over for the others too was lost.
  if #rest > 0 then expire() else end_exclusive() end
  answer = 'released'
else
  local share = read_field('h:' .. attempt)
  if not share then return 'none' end
  fields['h:' .. attempt] = ''
  set_shares(used - words(share)[3])
  answer = 'released'
end
expire()
serve_queue()
return commit(answer)

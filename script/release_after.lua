#!lua flags=allow-oom
-- release_after — give up a hold, or one entry of it, and keep the lock for a minimum time.
--
-- KEYS   1 key             the lock's record
-- ARGV   1 attempt         the acquisition that ends
-- ARGV   2 token           the token of its grant
-- ARGV   3 min_hold        ms since the grant for which nobody else gets the lock
-- ARGV   4 keep            ms from now for which nobody else gets the lock
-- ARGV   5 retention       ms for which the record outlives its last lease
-- ARGV   6 channel_prefix  prefix of the push channels
-- ARGV   7 owner           as in acquire
--
-- ANSWER kept <left>     released, and free in left ms, whatever the lease was
-- ANSWER released        released and free: the minimum time is over, or an operator has asked for the end of the hold
-- ANSWER held <entries>  this entry has ended; the owner has others, and holds for min_hold and keep at least
-- ANSWER gone            the hold had ended before: it expired, was evicted, or the record was lost
-- ERROR  FORMAT          the record has a later format, or no version wrote it
--
-- HOLDS  I3 I4 I5 I7. If the lock is free earlier than the waiters were told, the first waiter
--        that receives pushes is pushed: kept <attempt> <left>. Nobody renews a kept lock.
-- REPEATS yes: as release.
-- WHY    A holder that only stops renewing cannot make its lease end earlier. A holder that
--        extends its lease instead could be overtaken by a late renewal of its own.

local key, attempt, token, min_hold = KEYS[1], ARGV[1], ARGV[2], tonumber(ARGV[3])
local keep, retention, channel_prefix, owner = tonumber(ARGV[4]), tonumber(ARGV[5]), ARGV[6], ARGV[7]

--include record

if holder == '%kept' and entries == attempt then
  -- A repeated request. A late copy of its acquire may have queued the attempt since.
  stop_waiting(attempt)
  if expiry > now then return commit('kept ' .. text(expiry - now)) end
elseif holds(attempt, owner) then
  local till = math.max(math.min(now, math.floor(fence / 1000)) + min_hold, now + keep)
  if ending then till = now end
  if till > now and (not entries or entries == attempt) then
    local nearer = till < expiry
    extend_record(till - now)
    holder, entries, expiry, provisional = '%kept', attempt, till, false
    fields.entries = entries
    if nearer then ask_first_to_poll(till - now) end
    return commit('kept ' .. text(till - now))
  end
  if expired_for_all() then return commit('gone') end
  local rest = remove_entry(attempt)
  if rest > 0 then
    extend_record(math.max(till - now, 0))
    expiry = math.max(expiry, till)
    return commit('held ' .. rest)
  end
else
  if owner and entries and holder == owner and text(fence) == token then return 'held ' .. #words(entries) end
  return was_released(token) and 'released' or 'gone'
end
expire()
serve_queue()
return commit('released')

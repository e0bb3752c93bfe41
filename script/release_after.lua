#!lua flags=allow-oom
-- release_after — give up a hold, or one entry of it, but leave the lock taken for a while.
--
-- KEYS   1 key             the lock's record
-- ARGV   1 attempt         the acquisition that ends
-- ARGV   2 token           the token of its grant
-- ARGV   3 min_hold        ms from its grant in which nobody is let in
-- ARGV   4 keep            ms from now in which nobody is let in
-- ARGV   5 retention       ms for which the record outlives its last lease
-- ARGV   6 channel_prefix  channel prefix of the pushes
-- ARGV   7 owner           as given to acquire
--
-- ANSWER kept <left>     given up, and free in left ms, whatever its lease was
-- ANSWER released        given up, and free: the time had passed
-- ANSWER held <entries>  this entry has ended; others of the named owner remain, for least and after at least
-- ANSWER gone            the hold had ended before, by expiry, eviction or loss of the record
-- ERROR  FORMAT          the record is of a later format
--
-- HOLDS  I3 I4 I5 I7. The first waiter that listens is told of an end that has
--        come nearer: kept <attempt> <left>. Nobody renews such a hold.
-- WHY    A holder that leaves its lease alone cannot make it end earlier, and
--        one that extends it instead could be followed by a renewal of its own
--        that was long on its way.

local key, attempt, token, min_hold = KEYS[1], ARGV[1], ARGV[2], tonumber(ARGV[3])
local keep, retention, channel_prefix, owner = tonumber(ARGV[4]), tonumber(ARGV[5]), ARGV[6], ARGV[7]

--include record

-- ask_first_to_poll lets the first who listens know that the lock is free earlier. If it leaves,
-- another is told: see serve_queue.
local function ask_first_to_poll(left)
  each_waiter(function(next, place)
    if not ask_to_poll(next, left) then return false end
    poll_at, poll_place = now + left, place
    set_queue(waiting, head, tail)
    return true
  end)
end

if holder == '%kept' and entries == attempt then
  -- Asked again. Nobody waits at a place that a late copy of its acquire has taken since.
  stop_waiting(attempt)
  if expiry > now then return commit('kept ' .. text(expiry - now)) end
elseif holds(attempt, owner) then
  local till = math.max(math.min(now, math.floor(fence / 1000)) + min_hold, now + keep)
  local rest = {}
  for _, entry in ipairs(words(entries or '')) do
    if entry ~= attempt then rest[#rest + 1] = entry end
  end
  if #rest > 0 then
    if expiry <= now then
      -- It is over for the others too, who do not ask: so it was lost.
      expire()
      serve_queue()
      return commit('gone')
    end
    extend_record(math.max(till - now, 0))
    entries = table.concat(rest, ' ')
    fields.entries = entries
    expiry = math.max(expiry, till)
    return commit('held ' .. #rest)
  elseif till > now then
    local nearer = till < expiry
    extend_record(till - now)
    holder, entries, expiry, provisional = '%kept', attempt, till, false
    fields.entries = entries
    if nearer then ask_first_to_poll(till - now) end
    return commit('kept ' .. text(till - now))
  else
    end_exclusive()
  end
else
  if owner and entries and holder == owner and text(fence) == token then return 'held ' .. #words(entries) end
  return was_released(token) and 'released' or 'gone'
end
expire()
serve_queue()
return commit('released')

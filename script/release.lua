-- release — give up a hold, or one entry of it; when the lock is free, hand it over.
--
-- KEYS   1 key        the lock's record
-- ARGV   1 attempt    the acquisition that ends
-- ARGV   2 token      the token of its grant
-- ARGV   3 retention  ms for which the record outlives its last lease
-- ARGV   4 base       channel prefix of the pushes
-- ARGV   5 owner      as given to acquire
--
-- ANSWER released        the hold has ended here, now or by an earlier copy of this request
-- ANSWER held <entries>  this entry has ended; others of the named owner remain
-- ANSWER gone            the hold had ended before, by expiry, eviction or loss of the record
-- ERROR  FORMAT          the record is of a later format
--
-- HOLDS  I3 I4 I5 I7. The next waiter is granted in this same step.
-- WHY    The record remembers who lost a lock, not who released it: losing is
--        rare, so a repeated release is told apart from a lost hold at no
--        cost. An expired hold that nobody took over is still the record's:
--        releasing it says truly that nobody was granted the lock in between.

local key, attempt, token, retention = KEYS[1], ARGV[1], ARGV[2], ARGV[3]
local base, owner = ARGV[4], ARGV[5]

-- The short way, for a mutex that nobody waits for.
if not owner then
  local got = redis.call('HMGET', key, 'holder', 'waiting', 'entries')
  if got[1] == attempt and not (got[2] or got[3]) then
    redis.call('HDEL', key, 'holder', 'expiry', 'since')
    return 'released'
  end
end

--include record

retention = tonumber(retention)
if holds(attempt, owner) then
  if owner then
    local rest = {}
    for _, entry in ipairs(words(entries)) do
      if entry ~= attempt then rest[#rest + 1] = entry end
    end
    if #rest > 0 then
      call('HSET', key, 'entries', table.concat(rest, ' '))
      return 'held ' .. #rest
    end
  end
  vacate()
else
  local share = call('HGET', key, 'h:' .. attempt)
  if not share then
    if owner and holder == owner and text(fence) == token then return 'held ' .. #words(entries) end
    return ended(token) and 'released' or 'gone'
  end
  call('HDEL', key, 'h:' .. attempt)
  units(used - words(share)[3])
end
settle()
advance()
return 'released'

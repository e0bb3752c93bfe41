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

-- The short way, for a mutex: nobody waits for it, or the head of the line is
-- one who wants it as a mutex and listens. It must leave the record just as the
-- long way would; a head of any other kind is left to that.
if not owner then
  local call = redis.call
  local got = call('HMGET', key, 'holder', 'waiting', 'entries', 'head', 'fence')
  if got[1] == attempt and not got[3] then
    if not got[2] then
      call('HDEL', key, 'holder', 'expiry')
      return 'released'
    end
    local head = got[4]
    local heir = call('HGET', key, '#' .. head)
    local ttl, patience
    if heir then
      ttl, patience = string.match(call('HGET', key, 'w:' .. heir), '^%d+ x %d+ (%d+) (%d+) %d+$')
    end
    if ttl then
      local clock = call('TIME')
      local token = clock[1] .. string.sub('00000' .. clock[2], -6)
      local now = string.sub(token, 1, -4)
      if patience > now and #patience == #now and token > got[5] and #token == #got[5] then
        -- All that is read is read before the push: what may be refused is
        -- refused while nothing has changed.
        local waiting = string.format('%d', got[2] - 1)
        local place = head
        repeat
          place = string.format('%d', place + 1)
        until waiting == '0' or call('HEXISTS', key, '#' .. place) == 1
        local verb = string.find(base, '{', 1, true) and 'SPUBLISH' or 'PUBLISH'
        local client = string.match(heir, '^[^/]*')
        local heard = redis.pcall(verb, base .. client, 'granted ' .. heir .. ' ' .. token .. ' ' .. waiting)
        if type(heard) == 'number' and heard > 0 then
          local life = string.format('%d', ttl + retention)
          if waiting == '0' then
            call('HDEL', key, '#' .. head, 'w:' .. heir, 'waiting', 'tail', 'head')
            call('HSET', key, 'fence', token, 'holder', heir, 'expiry', string.format('%d', now + ttl))
            call('PEXPIRE', key, life)
          else
            call('HDEL', key, '#' .. head, 'w:' .. heir)
            call('HSET', key, 'fence', token, 'holder', heir, 'expiry', string.format('%d', now + ttl),
              'waiting', waiting, 'head', place)
            call('PEXPIRE', key, life, 'GT')
          end
          return 'released'
        end
      end
    end
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
      keep(0)
      call('HSET', key, 'entries', table.concat(rest, ' '))
      return 'held ' .. #rest
    end
  end
  vacate()
else
  local share = call('HGET', key, 'h:' .. attempt)
  if not share then
    if owner and entries and holder == owner and text(fence) == token then return 'held ' .. #words(entries) end
    return ended(token) and 'released' or 'gone'
  end
  call('HDEL', key, 'h:' .. attempt)
  units(used - words(share)[3])
end
settle()
advance()
return 'released'

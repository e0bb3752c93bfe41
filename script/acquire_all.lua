#!lua
-- acquire_all — take several locks, all or none.
--
-- KEYS   n key             the records, one for each lock, no two the same
-- ARGV   1 attempt         who asks: <client>/<number>; all the holds are this one acquisition's
-- ARGV   2 ttl             lease in ms, at least 1
-- ARGV   3 retention       ms for which a record outlives its last lease
-- ARGV   n channel_prefix  for the i-th key, argument i+3: channel prefix of its pushes
--
-- ANSWER granted <each…>                a token and a number of waiters for each lock, in order:
--                                       all are held for ttl from now on
-- ANSWER busy <index> <left> <holder>   the index-th lock is not free, and none is held; left: ms
--                                       until its holders may be over; holder is - unless exclusive
-- ERROR  FORMAT                         a record is of a later format; nothing has changed
--
-- HOLDS  I1 I2 I3 I5 I6. Sent again by the same attempt it gives the same
--        tokens, and counts the leases from the later time. If one of the
--        locks was lost between the two, the second ends what the first got.
-- WHY    One after the other, two who want the same locks could each get a
--        half. All records are read before anything is written: a key that
--        holds something else is refused while nothing has changed.

local attempt, ttl, retention = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local instant = redis.call('TIME')

local function open(key, channel_prefix)
--include record
  local lock = {set_record_ttl = set_record_ttl, write_fields = write_fields, publish = publish}

  -- try says whether attempt holds the lock or may take it.
  function lock.try()
    expire()
    lock.token = reacquire(attempt, nil, ttl, true)
    if lock.token then return true end
    local blocked = false
    if waiting > 0 then
      local _
      _, blocked = serve_queue()
    end
    local free = not blocked and compatible('x', 1)
    return free
  end

  function lock.take()
    local token = lock.token or grant(attempt, nil, 'x', 1, ttl)
    return token .. ' ' .. text(waiting)
  end

  -- drop ends a hold that try has found.
  function lock.drop()
    if not lock.token or not holds(attempt) then return end
    end_exclusive()
    expire()
    serve_queue()
  end

  function lock.busy(index) return 'busy ' .. text(index) .. ' ' .. ms_until_free() .. ' ' .. (holder or '-') end

  return lock
--include ends
end

local locks, each = {}, {}
for i, key in ipairs(KEYS) do
  locks[i] = open(key, ARGV[i + 3])
  if locks[i].err then return locks[i] end
end
-- commit writes to all of them before anybody is told anything.
local function commit(answer)
  for _, lock in ipairs(locks) do lock.set_record_ttl() end
  for _, lock in ipairs(locks) do lock.write_fields() end
  for _, lock in ipairs(locks) do lock.publish() end
  return answer
end

for i, lock in ipairs(locks) do
  if not lock.try() then
    for _, other in ipairs(locks) do other.drop() end
    return commit(lock.busy(i))
  end
end
for i, lock in ipairs(locks) do each[i] = lock.take() end
return commit('granted ' .. table.concat(each, ' '))

#!lua
-- acquire_all — take several locks, all or none.
--
-- KEYS   n key             the records, one for each lock, all different
-- ARGV   1 attempt         the acquisition: <client>/<number>; it is the same for all locks
-- ARGV   2 ttl             lease in ms, at least 1
-- ARGV   3 retention       ms for which a record outlives its last lease
-- ARGV   n channel_prefix  for the i-th key, argument i+3: prefix of its push channels
--
-- ANSWER granted <each…>                a token and a number of waiters for each lock, in order:
--                                       the attempt holds all of them for ttl from now on
-- ANSWER busy <index> <left> <holder>   the index-th lock is not free, and the attempt holds none; left: ms
--                                       until the holders may have expired; holder is - unless exclusive
-- ERROR  FORMAT                         a record has a later format, or no version wrote it; nothing has changed
--
-- HOLDS  I1 I2 I3 I5 I6. If the same attempt sends it again, it gets the same tokens, and the
--        leases count from the later time. If one of the locks was lost in between, the
--        repeated request releases the others.
-- REPEATS no: as acquire.
-- WHY    If two clients took the same locks one by one, each could get half of them. The step
--        reads all records before it writes. So if one key holds something else, the
--        server refuses while nothing has changed.

local attempt, ttl, retention = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])

-- step is all that follows: see commit in record.lua.
local function step()
  local instant = redis.call('TIME')

  local function open(key, channel_prefix)
--include record
    local lock = {settle = settle, set_record_ttl = set_record_ttl, write_fields = write_fields, publish = publish}

    -- try reports whether the attempt holds the lock or can take it.
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

    -- drop releases a hold that try has found.
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
  -- commit writes all records before it sends any push.
  local function commit(answer)
    for _, lock in ipairs(locks) do lock.settle() end
    for _, lock in ipairs(locks) do
      if not lock.set_record_ttl() then return step() end
    end
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
end

return step()

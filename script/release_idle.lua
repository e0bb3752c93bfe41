#!lua flags=allow-oom
-- release_idle — release those of several mutexes that have no waiters.
--
-- KEYS   n key      the records
-- ARGV   n attempt  the acquisitions that end, one for each key, from argument 1 on
--
-- ANSWER released <each>  each: for every key, in order, 1 if it was released, or - if
--                         it was not and nothing has changed
--
-- HOLDS  I4 I5 I7. For what it does not release, the client sends release: a lock with
--        waiters, a repeated request, a hold that has ended.
-- REPEATS yes: as release.
-- WHY    As in acquire_free.

-- byte makes no text, and a text costs more than all else that a key needs here.
local call, byte, sub = redis.pcall, string.byte, string.sub
local each = {}
for i, key in ipairs(KEYS) do
  local attempt, space = ARGV[i], 32
  local lock, done = call('HGET', key, 'lock'), nil
  local first = type(lock) == 'string' and byte(lock)
  -- If the first byte is no digit, a later format wrote it.
  local known = first and first >= 48 and first <= 57
  if known and byte(lock, 17) == space and byte(lock, -#attempt - 1) == space and sub(lock, -#attempt) == attempt then
    done = call('HSET', key, 'lock', sub(lock, 1, 16))
  end
  each[i] = type(done) == 'number' and '1' or '-'
end
return 'released ' .. table.concat(each)

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
-- WHY    As in acquire_free.

local each = {}
for i, key in ipairs(KEYS) do
  local attempt = ARGV[i]
  local lock, done = redis.pcall('HGET', key, 'lock'), nil
  -- If the first byte is no digit, a later format wrote it.
  local known = type(lock) == 'string' and string.find(lock, '^%d')
  if known and string.sub(lock, -#attempt - 1) == ' ' .. attempt and string.sub(lock, 17, 17) == ' ' then
    done = redis.pcall('HSET', key, 'lock', string.sub(lock, 1, 16))
  end
  each[i] = type(done) == 'number' and '1' or '-'
end
return 'released ' .. table.concat(each)

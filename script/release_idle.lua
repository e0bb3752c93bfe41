#!lua flags=allow-oom
-- release_idle — give up several mutexes, those of them that nobody waits for.
--
-- KEYS   n key      the records
-- ARGV   n attempt  the acquisitions that end, one for each key, from 1 on
--
-- ANSWER released <each>  each: for every key, in order, 1 if it was released, or - if
--                         it was not and nothing has changed
--
-- HOLDS  I4 I5 I7. What is not released here is given up with release: a lock that
--        somebody waits for, a request that came twice, a hold that is over.
-- WHY    As in acquire_free.

local each = {}
for i, key in ipairs(KEYS) do
  local attempt = ARGV[i]
  local lock, done = redis.pcall('HGET', key, 'lock'), nil
  -- What begins with no digit is of a later format.
  local known = type(lock) == 'string' and string.find(lock, '^%d')
  if known and string.sub(lock, -#attempt - 1) == ' ' .. attempt and string.sub(lock, 17, 17) == ' ' then
    done = redis.pcall('HSET', key, 'lock', string.sub(lock, 1, 16))
  end
  each[i] = type(done) == 'number' and '1' or '-'
end
return 'released ' .. table.concat(each)

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

local call, match, sub = redis.pcall, string.match, string.sub
local each = {}
for i, key in ipairs(KEYS) do
  local lock, done = call('HGET', key, 'lock'), nil
  -- space: where the fence ends. from: where the attempt begins, after the lease. What has
  -- another form is for release, which refuses it if no version wrote it.
  local space, from
  if type(lock) == 'string' then space, from = match(lock, '^[1-8]%d+() %-?%d+ ()') end
  if space == 17 and from <= 36 and sub(lock, from) == ARGV[i] then
    done = call('HSET', key, 'lock', sub(lock, 1, 16))
  end
  each[i] = type(done) == 'number' and '1' or '-'
end
return 'released ' .. table.concat(each)

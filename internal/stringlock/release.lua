#!lua flags=allow-oom
-- release — delete the key, if it has the value, and tell those that wait.
--
-- KEYS   1 key      the lock's key
-- ARGV   1 value    what the holder wrote
-- ARGV   2 command  PUBLISH or SPUBLISH
-- ARGV   3 channel  where Holdfast's waiters listen; empty: nobody is told
--
-- ANSWER released  the key had the value
-- ANSWER expired   there was no such key
-- ANSWER taken     the key has another value, or is of another kind
--
-- HOLDS  I4 I5 I9. The message comes after the deletion. It is the value, so that a client that hears
--        several servers can tell which messages are of one release.
-- REPEATS no: a copy finds no key, and is answered expired. No value is used again, so it does nothing.
-- WHY    Between a comparison and a deletion another client could get the lock.
local value = redis.pcall('GET', KEYS[1])
if not value then return 'expired' end
if value ~= ARGV[1] then
	if type(value) == 'table' and not string.find(value.err, '^WRONGTYPE') then return value end
	return 'taken'
end
redis.call('DEL', KEYS[1])
if ARGV[3] ~= '' then redis.pcall(ARGV[2], ARGV[3], ARGV[1]) end
return 'released'

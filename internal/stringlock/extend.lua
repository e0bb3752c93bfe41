#!lua flags=allow-oom
-- extend — give the key a new TTL, if it has the value.
--
-- KEYS   1 key    the lock's key
-- ARGV   1 value  what the holder wrote
-- ARGV   2 ttl    lease in ms from now on
-- ARGV   3 longer 1: never make the TTL shorter; 0: set it, whatever it was
--
-- ANSWER held     the key has the value for ttl from now on
-- ANSWER expired  there is no such key
-- ANSWER taken    the key has another value, or is of another kind; nothing changed
--
-- HOLDS  I2 I4 I5. A key that is gone stays gone: another client may have had the lock meanwhile. To GT,
--        a key without a TTL has the longest: NX gives it one.
-- REPEATS no: a late copy can shorten the lease that a later renewal has made longer.
-- WHY    Between a comparison and a new TTL another client could get the lock.
local value = redis.pcall('GET', KEYS[1])
if not value then return 'expired' end
if value ~= ARGV[1] then
	if type(value) == 'table' and not string.find(value.err, '^WRONGTYPE') then return value end
	return 'taken'
end
if ARGV[3] == '1' then
	if redis.call('PEXPIRE', KEYS[1], ARGV[2], 'GT') == 0 then redis.call('PEXPIRE', KEYS[1], ARGV[2], 'NX') end
else
	redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
return 'held'

#!lua
-- acquire — set the key to the value, if it is free or has that value.
--
-- KEYS   1 key    the lock's key
-- ARGV   1 value  what the holder writes: its identity
-- ARGV   2 ttl    lease in ms, at least 1
--
-- ANSWER granted              the key has the value for ttl from now on
-- ANSWER busy <left> <value>  it has another value; left: its TTL in ms, negative without one; value: the
--                             rest of the answer, of which there are 512 bytes at most; empty if the
--                             key is not a string
--
-- HOLDS  I1 I2 I4 I5. The originals set a key only if it does not exist, so a grant of theirs and one of
--        this script cannot both be. The same value again gets the same answer.
-- REPEATS no: after the release a late copy sets the key again, for nobody.
-- WHY    A key that is free needs one command, whose answer is what the key had. That answer can also be an
--        error: of a key of another kind, or of a server without memory. So the key is read again.
local had = redis.pcall('SET', KEYS[1], ARGV[1], 'NX', 'GET', 'PX', ARGV[2])
if not had then return 'granted' end
local value = redis.pcall('GET', KEYS[1])
if value and value ~= ARGV[1] then
	if type(value) == 'table' then
		if not string.find(value.err, '^WRONGTYPE') then return value end
		value = ''
	end
	return string.format('busy %.0f ', redis.call('PTTL', KEYS[1])) .. string.sub(value, 1, 512)
end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 'granted'

#!lua flags=no-writes
-- left — read how long the value stays.
--
-- KEYS   n key    the lock's keys
-- ARGV   1 value  what the holder wrote
--
-- ANSWER held <left>  every key has the value; left: the shortest of their TTLs in ms, negative without one
-- ANSWER expired      a key is missing, and no key has another value
-- ANSWER taken        a key has another value
--
-- HOLDS  I4. It changes nothing.
-- REPEATS yes: it changes nothing.
-- WHY    The TTL must be that of the value.
local missing, least = false, nil
for _, key in ipairs(KEYS) do
	local value = redis.pcall('GET', key)
	if not value then
		missing = true
	elseif value ~= ARGV[1] then
		return 'taken'
	else
		local left = redis.call('PTTL', key)
		if not least or left < least then least = left end
	end
end
if missing then return 'expired' end
return 'held ' .. least

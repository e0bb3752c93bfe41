-- extend — give every key a new TTL, if all have the value.
--
-- KEYS   n key    the lock's keys
-- ARGV   1 value  what the holder wrote
-- ARGV   2 ttl    lease in ms from now on
-- ARGV   3 again  1: set keys that are missing, too; 0: do not
-- ARGV   4 longer 1: never make a TTL shorter; 0: set it, whatever it was
--
-- ANSWER held     every key has the value for ttl from now on
-- ANSWER expired  a key is missing, and no key has another value; nothing changed
-- ANSWER taken    a key has another value; nothing changed
--
-- HOLDS  I2 I4 I5. With again the caller says that its lease is not over yet.
-- REPEATS no: with again, a late copy sets keys anew that were deleted.
-- WHY    Between a comparison and a new TTL another client could get the lock.
local missing = {}
for _, key in ipairs(KEYS) do
	local value = redis.pcall('GET', key)
	if not value then
		missing[#missing + 1] = key
	elseif value ~= ARGV[1] then
		return 'taken'
	end
end
if #missing > 0 and ARGV[3] ~= '1' then return 'expired' end
for _, key in ipairs(missing) do
	redis.call('SET', key, ARGV[1], 'PX', ARGV[2])
end
for _, key in ipairs(KEYS) do
	if ARGV[4] == '1' then
		redis.call('PEXPIRE', key, ARGV[2], 'GT')
	else
		redis.call('PEXPIRE', key, ARGV[2])
	end
end
return 'held'

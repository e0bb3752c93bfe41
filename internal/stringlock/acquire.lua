-- acquire — set every key to the value, if all are free or all have that value.
--
-- KEYS   n key    the lock's keys; redsync has one
-- ARGV   1 value  what the holder writes: its identity
-- ARGV   2 ttl    lease in ms, at least 1
-- ARGV   n other  optional: other values that are the caller's own, and are replaced
--
-- ANSWER granted              every key has the value for ttl from now on
-- ANSWER busy <left> <value>  a key has another value; left: its TTL in ms, negative without one; value: the
--                             rest of the answer, and empty if the key is not a string
--
-- HOLDS  I1 I2 I4 I5. The originals set a key only if it does not exist, so a grant of theirs and one of
--        this script cannot both be. The same value again gets the same answer.
-- REPEATS no: after the release a late copy sets the keys again, for nobody.
-- WHY    Two steps could find two keys free and set only one. One key that is free needs one command,
--        whose answer is what the key had.
if not KEYS[2] and not ARGV[3] then
	local had = redis.pcall('SET', KEYS[1], ARGV[1], 'NX', 'GET', 'PX', ARGV[2])
	if not had then return 'granted' end
end
local free, own = 0, 0
for _, key in ipairs(KEYS) do
	local value = redis.pcall('GET', key)
	local mine = false
	if value == ARGV[1] then mine = true end
	for i = 3, #ARGV do
		if value == ARGV[i] then mine = true end
	end
	if not value then
		free = free + 1
	elseif mine then
		own = own + 1
	end
	if value and not mine or free > 0 and own > 0 then
		if type(value) ~= 'string' then value = '' end
		return 'busy ' .. redis.call('PTTL', key) .. ' ' .. value
	end
end
for _, key in ipairs(KEYS) do
	redis.call('SET', key, ARGV[1], 'PX', ARGV[2])
end
return 'granted'

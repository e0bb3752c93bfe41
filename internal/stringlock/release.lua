-- release — delete every key that has the value, and tell those that wait.
--
-- KEYS   n key      the lock's keys
-- ARGV   1 value    what the holder wrote
-- ARGV   2 command  PUBLISH or SPUBLISH
-- ARGV   n channel  for each key, where Holdfast's waiters listen; empty: nobody is told
--
-- ANSWER released  every key had the value
-- ANSWER expired   a key was missing, and no key had another value
-- ANSWER taken     a key has another value
--
-- HOLDS  I4 I5 I9. The messages come after all deletions. Each is the value, so that a client that hears
--        several servers can tell which messages are of one release.
-- REPEATS no: a copy finds no keys, and is answered expired. No value is used again, so it does nothing.
-- WHY    Between a comparison and a deletion another client could get the lock. Keys of the holder that are
--        left go too, because its work has ended.
local missing, taken, told = false, false, {}
for i, key in ipairs(KEYS) do
	local value = redis.pcall('GET', key)
	if value == ARGV[1] then
		redis.call('DEL', key)
		told[#told + 1] = ARGV[i + 2]
	elseif not value then
		missing = true
	else
		taken = true
	end
end
for _, channel in ipairs(told) do
	if channel ~= '' then redis.pcall(ARGV[2], channel, ARGV[1]) end
end
if taken then return 'taken' end
if missing then return 'expired' end
return 'released'

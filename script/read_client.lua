#!lua flags=no-writes
-- read_client — read what a client has said of itself.
--
-- KEYS   1 key    the client's own record
-- ARGV   n field  the notes that the caller wants, from argument 1 on
--
-- ANSWER client <app> <host> <pid> <version> <started>
-- ANSWER unknown                it has not registered, or its record has expired
-- LINE   noted                  the client has written notes: ask for those on an attempt by their fields
-- LINE   note <field> <value>   of each note that was asked for and exists, in order
--
-- HOLDS  Writes nothing. I11: it reads no more notes than the caller names.
-- REPEATS yes: it changes nothing.
-- WHY    A lock's record names attempts. People look for the program that made them.

local key, asked = KEYS[1], #ARGV
local got = redis.call('HMGET', key, 'app', 'host', 'pid', 'version', 'started')
if not got[1] then return 'unknown' end
local lines = {'client ' .. table.concat(got, ' ')}
if redis.call('HGET', key, 'noted') then lines[2] = 'noted' end
for i = 1, asked do
  local field = ARGV[i]
  local value = redis.call('HGET', key, field)
  if value and value ~= '' then lines[#lines + 1] = 'note ' .. field .. ' ' .. value end
end
return table.concat(lines, '\n')

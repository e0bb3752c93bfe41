#!lua flags=no-writes
-- read_client — read what a client has said of itself.
--
-- KEYS   1 key  the client's own record
--
-- ANSWER client <app> <host> <pid> <version> <started>
-- ANSWER unknown   it has not registered, or its record has expired
--
-- HOLDS  Writes nothing.
-- WHY    A lock's record names attempts. People look for the program that made them.

local got = redis.call('HMGET', KEYS[1], 'app', 'host', 'pid', 'version', 'started')
if not got[1] then return 'unknown' end
return 'client ' .. table.concat(got, ' ')

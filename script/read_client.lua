#!lua flags=no-writes
-- read_client — who a client said that it is.
--
-- KEYS   1 key  the client's own record
--
-- ANSWER client <app> <host> <pid> <version> <started>
-- ANSWER unknown   it never announced itself, or stopped doing so
--
-- HOLDS  Writes nothing.
-- WHY    A lock's record names attempts; people want the program behind them.

local got = redis.call('HMGET', KEYS[1], 'app', 'host', 'pid', 'version', 'started')
if not got[1] then return 'unknown' end
return 'client ' .. table.concat(got, ' ')

#!lua flags=no-writes
-- check_acl — find commands of the scripts that the server's user may not run.
--
-- KEYS   1 key      a lock's record
-- ARGV   1 channel  a push channel of that lock
--
-- ANSWER permitted
-- ANSWER missing <command…>  the user may not run them, or the server does not know them
-- ANSWER unknown             the server cannot tell
--
-- HOLDS  Writes nothing.
-- REPEATS yes: it changes nothing.
-- WHY    A server does not roll a script back. If it refuses a command in the middle, the writes
--        before it remain, such as a key without a TTL.

local key, channel = KEYS[1], ARGV[1]
local check = redis.acl_check_cmd
if not check then return 'unknown' end

local missing = {}
local function need(command, ...)
  local known, may = pcall(check, command, ...)
  if command == 'pubsub' then command = command .. '|' .. (...) end
  if not (known and may) then missing[#missing + 1] = command end
end
need('time')
need('hmget', key, 'f')
need('hget', key, 'f')
need('hset', key, 'f', 'v')
need('hdel', key, 'f')
need('hgetall', key)
need('hscan', key, '0')
need('pexpire', key, '1')
need('pttl', key)
local count, verb = 'numsub', 'publish'
if string.find(channel, '{', 1, true) then count, verb = 'shardnumsub', 'spublish' end
need('pubsub', count, channel)
need(verb, channel, '')
if #missing == 0 then return 'permitted' end
return 'missing ' .. table.concat(missing, ' ')

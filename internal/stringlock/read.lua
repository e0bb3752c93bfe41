#!lua flags=no-writes
-- read — show who has a lock.
--
-- KEYS   1 key  the lock's key
--
-- ANSWER free                  there is no such key
-- ANSWER taken <left> <value>  left: the TTL in ms, negative without one; value: the rest of the answer, 512
--                             bytes at most
-- ERROR  WRONGTYPE            the key is not a string
--
-- HOLDS  I4. It changes nothing.
-- REPEATS yes: it changes nothing.
-- WHY    The TTL must be that of the value.
local value = redis.call('GET', KEYS[1])
if not value then return 'free' end
return string.format('taken %.0f ', redis.call('PTTL', KEYS[1])) .. string.sub(value, 1, 512)

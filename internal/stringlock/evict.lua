#!lua flags=allow-oom
-- evict — delete the key, whoever has it, and tell those that wait.
--
-- KEYS   1 key      the lock's key
-- ARGV   1 command  PUBLISH or SPUBLISH
-- ARGV   2 channel  where Holdfast's waiters listen; empty: nobody is told
-- ARGV   3 message  what they are told, the same on all servers
--
-- ANSWER evicted    the key had a value
-- ANSWER free       there was no such key
-- ERROR  WRONGTYPE  the key is not a string
--
-- HOLDS  I9. The message comes after the deletion.
-- REPEATS no: a copy deletes the key of the next holder.
-- WHY    A read first, so that a key of another kind is left as it is.
if not redis.call('GET', KEYS[1]) then return 'free' end
redis.call('DEL', KEYS[1])
if ARGV[2] ~= '' then redis.pcall(ARGV[1], ARGV[2], ARGV[3]) end
return 'evicted'

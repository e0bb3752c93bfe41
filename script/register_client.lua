#!lua
-- register_client — write down what a client says of itself, so that people can find it.
--
-- KEYS   1 key      the client's own record
-- ARGV   1 ttl      ms until the record expires unless the client registers again
-- ARGV   2 app      the program's name
-- ARGV   3 host     the machine that it runs on
-- ARGV   4 pid      its process ID there
-- ARGV   5 version  the version of Holdfast
-- ARGV   6 started  ms since 1970, by the client's clock: for people only
--
-- ANSWER announced
--
-- HOLDS  I2. The record holds no secret.
-- WHY    It is apart from the locks: a client writes it once, and not with each
--        acquisition.

local key, ttl, app, host, pid, version, started = KEYS[1], ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]
-- PEXPIRE comes first, see set_record_ttl in record.lua. It also comes last: a short TTL may be
-- over as soon as it is set, and HSET then makes a key without one.
redis.call('PEXPIRE', key, ttl)
redis.call('HSET', key, 'app', app, 'host', host, 'pid', pid, 'version', version, 'started', started)
redis.call('PEXPIRE', key, ttl)
return 'announced'

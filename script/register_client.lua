#!lua
-- register_client — a client makes itself known, so that a holder can be named to a person.
--
-- KEYS   1 key      the client's own record
-- ARGV   1 ttl      ms until it is forgotten unless announced again
-- ARGV   2 app      what the program calls itself
-- ARGV   3 host     the machine it runs on
-- ARGV   4 pid      its process id there
-- ARGV   5 version  of Holdfast
-- ARGV   6 started  ms since 1970, by the client's clock: for people only
--
-- ANSWER announced
--
-- HOLDS  I2. No secret is stored.
-- WHY    Kept apart from the locks: a name is written once per client, not
--        once per acquisition.

local key, ttl, app, host, pid, version, started = KEYS[1], ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]
-- The life comes first, see set_record_ttl in the shared part of the other actions; and last,
-- for a short one may be over as it is set: then there is no key any more.
redis.call('PEXPIRE', key, ttl)
redis.call('HSET', key, 'app', app, 'host', host, 'pid', pid, 'version', version, 'started', started)
redis.call('PEXPIRE', key, ttl)
return 'announced'

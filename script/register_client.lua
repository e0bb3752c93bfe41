#!lua
-- register_client — write down what a client says of itself, so that people can find it.
--
-- KEYS   1 key      the client's own record
-- ARGV   1 ttl      ms for which the record lasts at least, unless it is ended; 0 ends it
-- ARGV   2 app      the program's name
-- ARGV   3 host     the machine that it runs on
-- ARGV   4 pid      its process ID there
-- ARGV   5 version  the version of Holdfast
-- ARGV   6 started  ms since 1970, by the client's clock: for people only
-- ARGV   n note     notes on attempts of this client, two arguments from 7 on: field, value or empty
--
-- ANSWER announced
--
-- HOLDS  I2. The record holds no secret. An empty value removes the note.
--        A client and others that keep its record may register at the same time: no one shortens it.
-- REPEATS yes: a late copy may bring an older note back, and notes are for people only.
-- WHY    It is apart from the locks: a client writes it once, and not with each
--        acquisition. A note belongs to an attempt by its number, which is never used again.
--        So a note that remains for too long describes nothing else.

local key, ttl, app, host, pid, version, started = KEYS[1], ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]
-- Without HSET: if the step is cut short after that, the key has no TTL.
if ttl == '0' then
  redis.call('PEXPIRE', key, ttl)
  return 'announced'
end
local fields, gone = {'app', app, 'host', host, 'pid', pid, 'version', version, 'started', started}, {}
if #ARGV > 6 then fields[11], fields[12] = 'noted', '1' end
for i = 7, #ARGV, 2 do
  local field, value = ARGV[i], ARGV[i + 1] or ''
  fields[#fields + 1], fields[#fields + 2] = field, value
  if value == '' then gone[#gone + 1] = field end
end
local life = math.max(tonumber(ttl), redis.call('PTTL', key))
-- PEXPIRE comes first, see set_record_ttl in record.lua. It also comes last: a short TTL may be
-- over as soon as it is set, and HSET then makes a key without one. One HSET writes all: if the
-- fields to remove stay, they are empty, and read_client takes them as absent.
redis.call('PEXPIRE', key, life)
redis.call('HSET', key, unpack(fields))
redis.call('PEXPIRE', key, life)
if #gone > 0 then redis.pcall('HDEL', key, unpack(gone)) end
return 'announced'

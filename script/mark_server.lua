#!lua flags=allow-oom
-- mark_server — which server this is, and what its quorum has noted on it.
--
-- KEYS   1 key  the mark that a quorum leaves on each of its servers
-- ARGV   1 ttl  ms for which the mark is kept from now on
-- ARGV   2 old  optional: the mark as it was read; - for none
-- ARGV   3 new  optional: what to write in its place if it is still the same
--
-- ANSWER node <now> <run> <mark>  now: in ms; run: - if it may not be asked; mark: - if there is none
--
-- HOLDS  I2. After a restart there is no mark, whatever the server read from its disk.
-- WHY    A server that lost its memory would grant again at once what it had
--        granted before. Its mark is lost with the rest, or is another run's.

local key, ttl, old, new = KEYS[1], ARGV[1], ARGV[2], ARGV[3]
local clock = redis.call('TIME')
local now = string.format('%d', clock[1] * 1000 + math.floor(clock[2] / 1000))
local info = redis.pcall('INFO', 'server')
local run = type(info) == 'string' and string.match(info, 'run_id:(%w+)') or '-'
local got = redis.call('HMGET', key, 'run', 'mark')
local mark = got[1] == run and got[2] or '-'
-- The life comes first, see set_record_ttl in the shared part of the other actions.
local known = redis.call('PEXPIRE', key, ttl)
if new and old == mark then
  mark = new
  redis.call('HSET', key, 'run', run, 'mark', mark)
  if known == 0 then redis.call('PEXPIRE', key, ttl) end
end
return 'node ' .. now .. ' ' .. run .. ' ' .. mark

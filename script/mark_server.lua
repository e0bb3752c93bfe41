#!lua flags=allow-oom
-- mark_server — tell the server's run and its mark, and replace the mark.
--
-- KEYS   1 key  the mark that a quorum keeps on each of its servers
-- ARGV   1 ttl  ms for which the mark lives from now on
-- ARGV   2 old  optional: the mark as the client has read it; - for none
-- ARGV   3 new  optional: the new mark; it is written if the present one is old
--
-- ANSWER node <now> <run> <mark>  now: in ms; mark: - for none; run: the server's run ID; if the user may not ask
--                                 for it, that of the mark, or -
--
-- HOLDS  I2. After a restart there is no mark, even if the server has read it from its disk.
-- REPEATS no: after the loss of all data a late copy gives the server its old mark back.
-- WHY    A server that has lost its memory would grant the same locks again. Its mark is then
--        lost as well, or belongs to another run.

local key, ttl, old, new = KEYS[1], ARGV[1], ARGV[2], ARGV[3]
local clock = redis.call('TIME')
local now = string.format('%d', clock[1] * 1000 + math.floor(clock[2] / 1000))
local info = redis.pcall('INFO', 'server')
local run = type(info) == 'string' and string.match(info, 'run_id:(%w+)') or '-'
local got = redis.call('HMGET', key, 'run', 'mark')
-- Some users may not ask for the run: they believe the mark of any run, and any user believes theirs.
local known = got[1] or '-'
if run == '-' then run = known end
local mark = (known == run or known == '-') and string.match(got[2] or '', '^%S+$') or '-'
-- PEXPIRE comes first and last, see register_client.
redis.call('PEXPIRE', key, ttl)
if new and old == mark then
  mark = new
  redis.call('HSET', key, 'run', run, 'mark', mark)
  redis.call('PEXPIRE', key, ttl)
end
return 'node ' .. now .. ' ' .. run .. ' ' .. mark

#!lua flags=allow-oom
-- node — which server this is, and since when it has forgotten nothing.
--
-- KEYS   1 key   the mark that a quorum leaves on each of its servers
-- ARGV   1 life  ms for which the mark is kept from now on
--
-- ANSWER node <now> <born> <run>  born: when the mark was made, in ms like now; run: - if it may not be asked
--
-- HOLDS  I2. A restart makes a new mark, whatever the server read from its disk.
-- WHY    A server that lost its memory would grant again at once what it had
--        granted before. Its mark is lost with the rest, or names another run.

local key, life = KEYS[1], ARGV[1]
local clock = redis.call('TIME')
local now = string.format('%d', clock[1] * 1000 + math.floor(clock[2] / 1000))
local info = redis.pcall('INFO', 'server')
local run = type(info) == 'string' and string.match(info, 'run_id:(%w+)') or '-'
local got = redis.call('HMGET', key, 'run', 'born')
local born = got[2]
-- The life comes first, see prolong in the shared part of the other actions.
local known = redis.call('PEXPIRE', key, life)
if got[1] ~= run or not born or tonumber(born) > tonumber(now) then
  born = now
  redis.call('HSET', key, 'run', run, 'born', born)
end
if known == 0 then redis.call('PEXPIRE', key, life) end
return 'node ' .. now .. ' ' .. born .. ' ' .. run

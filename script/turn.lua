-- turn — begin the run of a period, if nobody has begun it.
--
-- KEYS   1 key        the record of the periods
-- ARGV   1 attempt    who asks: <client>/<number>, unique for each run
-- ARGV   2 ttl        lease of the run in ms, at least 1
-- ARGV   3 retention  ms for which the record outlives its last lease
-- ARGV   4 period     length in ms, at least ttl
-- ARGV   5 offset     ms since 1970 at which one of the periods begins; -: each begins with its run
-- ARGV   6 first      where no period is remembered: now is it due, or only with the next
-- ARGV   7 base       channel prefix of the pushes
--
-- ANSWER granted <token> <left>   the run is ours, held for ttl from now on; left: ms until the next period
-- ANSWER early <left> <attempt>   this period has had its run, by attempt; -: nobody knows of one
-- ANSWER busy <left> <holder>     the period is due, but a run goes on that began before it
-- ERROR  FORMAT                   the record is of a later format
--
-- HOLDS  I1 I2 I3 I5. The period is marked in the step that grants the run,
--        so it is kept though the run is short or its process dies. Sent
--        again by the same attempt it gives the same token.
-- WHY    A look at the mark and a grant in two steps would let two processes
--        run in one period. The periods are counted by the server's clock,
--        so that those of the starters do not matter.

local key, attempt, ttl, retention = KEYS[1], ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local period, offset, first, base = tonumber(ARGV[4]), ARGV[5], ARGV[6], ARGV[7]

--include record

settle()
local past = call('HGET', key, 'turn')
local till, who = 0, '-'
if past then
  local m = words(past)
  till, who = tonumber(m[1]), m[2]
end
local mine = again(attempt, nil, ttl, true)
if mine then return 'granted ' .. mine .. ' ' .. text(math.max(till - now, 0)) end

local upcoming = now + period
if offset ~= '-' then upcoming = upcoming - (now - tonumber(offset)) % period end
if not past and first == 'next' then return 'early ' .. text(upcoming - now) .. ' -' end
-- A mark further ahead was made with a longer period, or before the clock was
-- set back: nobody is to wait for longer than a period because of it.
if till > now + period then
  till = upcoming
  call('HSET', key, 'turn', text(till) .. ' ' .. who)
end
if till > now then return 'early ' .. text(till - now) .. ' ' .. who end

local blocked = false
if waiting > 0 then mine, blocked = advance() end
if blocked or not fits('x', 1) then return 'busy ' .. left() .. ' ' .. (holder or '-') end
local token = grant(attempt, nil, 'x', 1, ttl)
call('HSET', key, 'turn', text(upcoming) .. ' ' .. attempt)
-- Who comes late for a period that nobody has run still sees that there were
-- periods before: the mark is kept for one more.
keep(upcoming - now + period)
return 'granted ' .. token .. ' ' .. text(upcoming - now)

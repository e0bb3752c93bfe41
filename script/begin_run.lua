#!lua
-- begin_run — begin the run of a period, if nobody has begun it.
--
-- KEYS   1 key             the record of the periods
-- ARGV   1 attempt         who asks: <client>/<number>, unique for each run
-- ARGV   2 ttl             lease of the run in ms, at least 1
-- ARGV   3 retention       ms for which the record outlives its last lease
-- ARGV   4 period          length in ms, at least ttl
-- ARGV   5 offset          ms since 1970 at which one of the periods begins; -: each begins with its run,
--                          or as the job's periods do if one is remembered
-- ARGV   6 first           where no period is remembered: now is it due, or only with the next;
--                          change: no run is asked for, but the job is given this period and offset
-- ARGV   7 channel_prefix  channel prefix of the pushes
--
-- ANSWER granted <token> <left>   the run is ours, held for ttl from now on; left: ms until the next period
-- ANSWER early <left> <attempt>   this period has had its run, by attempt; -: nobody knows of one
-- ANSWER busy <left> <holder>     the period is due, but a run goes on that began before it
-- ANSWER other <period> <offset>  the job has another period or offset; its mark is kept
-- ERROR  FORMAT                   the record is of a later format
--
-- HOLDS  I1 I2 I3 I5. The period is marked in the step that grants the run,
--        so it is kept though the run is short or its process dies. Sent
--        again by the same attempt it gives the same token. The mark of a
--        job is never judged by another period than the one it was made with.
-- WHY    A look at the mark and a grant in two steps would let two processes
--        run in one period. The periods are counted by the server's clock,
--        so that those of the starters do not matter.

local key, attempt, ttl, retention = KEYS[1], ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local period, offset, first, channel_prefix = tonumber(ARGV[4]), ARGV[5], ARGV[6], ARGV[7]

--include record

expire()
local mark = read_field('period')
local next_run, last_run, agreed, agreed_offset = 0, '-', text(period), offset
if mark then
  next_run, last_run, agreed, agreed_offset = string.match(mark, '^(%-?%d+) (%S+) (%d+) (%S+)$')
  next_run = tonumber(next_run)
  -- Who names no beginning takes the one that the job has.
  if offset == '-' and first ~= 'change' then offset = agreed_offset end
end
local plan = text(period) .. ' ' .. (offset == '-' and offset or text(tonumber(offset)))
agreed = agreed .. ' ' .. agreed_offset
local mine = reacquire(attempt, nil, ttl, true)
if mine then return commit('granted ' .. mine .. ' ' .. text(math.max(next_run - now, 0))) end

-- limit is the latest beginning that a mark may name.
local upcoming, latest = now + period, now + period
if offset ~= '-' then
  upcoming = upcoming - (now - tonumber(offset)) % period
  latest = upcoming + period
end
if mark and agreed ~= plan then
  if first ~= 'change' then return commit('other ' .. agreed) end
  -- What is due stays so. What is not is due with the next beginning: of the
  -- run before nobody knows when in its period it began.
  if next_run > now then next_run = upcoming end
  extend_record(upcoming - now + period)
  fields.period = text(next_run) .. ' ' .. last_run .. ' ' .. plan
end
if first == 'change' or (not mark and first == 'next') then
  return commit('early ' .. text(math.max((mark and next_run or upcoming) - now, 0)) .. ' ' .. last_run)
end
-- The clock was set back: nobody is to wait for much longer than a period
-- because of that. The beginning of a fixed time that has had its run is not
-- waited for once more: it would have two.
if next_run > latest then
  next_run = latest
  fields.period = text(next_run) .. ' ' .. last_run .. ' ' .. plan
end
if next_run > now then return commit('early ' .. text(next_run - now) .. ' ' .. last_run) end

local blocked = false
if waiting > 0 then mine, blocked = serve_queue() end
if blocked or not compatible('x', 1) then return commit('busy ' .. ms_until_free() .. ' ' .. (holder or '-')) end
local token = grant(attempt, nil, 'x', 1, ttl)
fields.period = text(upcoming) .. ' ' .. attempt .. ' ' .. plan
-- Who comes late for a period that nobody has run still sees that there were
-- periods before: the mark is kept for one more.
extend_record(upcoming - now + period)
return commit('granted ' .. token .. ' ' .. text(upcoming - now))

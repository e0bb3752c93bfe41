#!lua
-- begin_run — begin the run of a period, unless this period has had one.
--
-- KEYS   1 key             the record of the job
-- ARGV   1 attempt         the run: <client>/<number>, never used again
-- ARGV   2 ttl             lease of the run in ms, at least 1
-- ARGV   3 retention       ms for which the record outlives its last lease
-- ARGV   4 period          length of a period in ms, at least ttl
-- ARGV   5 offset          ms since 1970 at which one of the periods begins; -: each begins with its run,
--                          or as in the record if there is one
-- ARGV   6 first           if the record has no period yet: now for a run at once, next for one in the next period;
--                          change: do not run, and give the job this period and offset
-- ARGV   7 channel_prefix  prefix of the push channels
-- ARGV   8 tries           optional: the period is used when a run has succeeded, see cancel_run, or after so
--                          many runs; absent: when a run begins
--
-- ANSWER granted <token> <left>   the attempt runs, and holds for ttl from now on; left: ms until the next period
-- ANSWER early <left> <attempt>   this period has had its run, by attempt; - if no run is known
-- ANSWER busy <left> <holder>     an earlier run goes on; one is due, or will be if that one does not succeed
-- ANSWER other <period> <offset>  the job has another period or offset, which is kept
-- ERROR  FORMAT                   the record has a later format, or no version wrote it
--
-- HOLDS  I1 I2 I3 I5. The step that grants the run also marks the period. So the mark exists
--        even if the run is short or its process crashes. If the same attempt sends it
--        again, it gets the same token. A request with another period or offset never
--        judges the mark of a job.
-- REPEATS no: after a cancel_run or the period a late copy begins a run of nobody.
-- WHY    If reading the mark and granting were two steps, two processes could run in one
--        period. The server's clock counts the periods, so the processes' clocks do not matter.

local key, attempt, ttl, retention = KEYS[1], ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local period, offset, first, channel_prefix = tonumber(ARGV[4]), ARGV[5], ARGV[6], ARGV[7]
local tries = ARGV[8]

--include record

expire()
local mark, offset = read_words('period', period_run, period_due), offset
local next_run, last_run, agreed, agreed_offset = 0, '-', text(period), offset
if mark then
  next_run, last_run, agreed, agreed_offset = tonumber(mark[1]), mark[2], mark[3], mark[4]
  -- Without an offset the request takes that of the job.
  if offset == '-' and first ~= 'change' then offset = agreed_offset end
end
local plan = text(period) .. ' ' .. (offset == '-' and offset or text(tonumber(offset)))
agreed = agreed .. ' ' .. agreed_offset
local mine = reacquire(attempt, nil, ttl, true)
if mine then return commit('granted ' .. mine .. ' ' .. text(math.max(next_run - now, 0))) end

-- latest is the latest begin of a period that a mark may name.
local upcoming, latest = now + period, now + period
if offset ~= '-' then
  upcoming = upcoming - (now - tonumber(offset)) % period
  latest = upcoming + period
end
if mark and agreed ~= plan then
  if first ~= 'change' then return commit('other ' .. agreed) end
  -- A run that is due remains due. Otherwise the next one is due when the new period
  -- begins, because the record does not say when in its period the last run began.
  if next_run > now then next_run = upcoming end
  extend_record(upcoming - now + period)
  fields.period = text(next_run) .. ' ' .. last_run .. ' ' .. plan
end
if first == 'change' or (not mark and first == 'next') then
  return commit('early ' .. text(math.max((mark and next_run or upcoming) - now, 0)) .. ' ' .. last_run)
end
-- The clock was set back. Then nobody waits for much more than a period. With an offset,
-- a fixed time that has had its run does not come a second time.
if next_run > latest then
  next_run = latest
  fields.period = text(next_run) .. ' ' .. last_run .. ' ' .. plan
end
-- A run that has ended, however it did, has not succeeded if the field tries is still there. So
-- nobody need report a run that crashed, lost its lease or was evicted.
local tried, begun = read_words('tries', '^(%d+) ([1-9]%d*)$'), 1
if tried and next_run > now then
  begun = tonumber(tried[1]) + 1
  if begun <= tonumber(tried[2]) then next_run = now end
end
if next_run > now then return commit('early ' .. text(next_run - now) .. ' ' .. last_run) end

local blocked = false
if waiting > 0 then mine, blocked = serve_queue() end
if blocked or not compatible('x', 1) then return commit('busy ' .. ms_until_free() .. ' ' .. (holder or '-')) end
local token = grant(attempt, nil, 'x', 1, ttl)
fields.period = text(upcoming) .. ' ' .. attempt .. ' ' .. plan
if tries then
  fields.tries = text(begun) .. ' ' .. text(tonumber(tries))
elseif tried then
  fields.tries = ''
end
-- The mark lives for one more period. So a process that comes late, when a period had no
-- run, still sees that there were runs before.
extend_record(upcoming - now + period)
return commit('granted ' .. token .. ' ' .. text(upcoming - now))

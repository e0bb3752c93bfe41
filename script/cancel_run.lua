#!lua flags=allow-oom
-- cancel_run — give the period of a run back: it did not happen, or is to happen again.
--
-- KEYS   1 key             the record of the periods
-- ARGV   1 attempt         the run
-- ARGV   2 retention       ms for which the record outlives its last lease
-- ARGV   3 channel_prefix  channel prefix of the pushes
--
-- ANSWER released   the run has ended, and its period is due again
-- ANSWER none       the record does not know the run (yet: its request may still be under way)
-- ERROR  FORMAT     the record is of a later format
--
-- HOLDS  I4 I5. A period that another run has begun is left alone. The mark
--        stays, due from now on, for it also says which period the job has.
-- WHY    Between the end of the run and that of the mark nobody could begin;
--        after a crash between the two nobody would, for a whole period.

local key, attempt, retention = KEYS[1], ARGV[1], tonumber(ARGV[2])
local channel_prefix = ARGV[3]

--include record

local mark = read_field('period')
local last_run, plan = string.match(mark or '', '^%S+ (%S+) (.+)$')
local known = last_run == attempt
if known then
  extend_record(0)
  fields.period = text(now) .. ' - ' .. plan
end
if holds(attempt) then
  end_exclusive()
  known = true
end
if not known then return 'none' end
expire()
serve_queue()
return commit('released')

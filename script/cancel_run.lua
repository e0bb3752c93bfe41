#!lua flags=allow-oom
-- cancel_run — make the period of a run due again, or end a run that has succeeded.
--
-- KEYS   1 key             the record of the job
-- ARGV   1 attempt         the run
-- ARGV   2 retention       ms for which the record outlives its last lease
-- ARGV   3 channel_prefix  prefix of the push channels
-- ARGV   4 done            optional: 1 if the run has succeeded: its period is used, and has no more tries
--
-- ANSWER released   the run has ended, and its period is due again, or with done used: by this request or a copy
-- ANSWER none       the record does not know the run; its request may still be under way. With done: its lease had ended
-- ERROR  FORMAT     the record has a later format, or no version wrote it
--
-- HOLDS  I4 I5. It leaves a period alone that another run has begun. The mark remains, due
--        from now on, because it also holds the period and offset of the job.
-- REPEATS yes: undone remembers the attempt that it gave back; another run has another attempt.
--        With done, a copy finds the tries gone, and changes nothing.
-- WHY    If the hold ended first and the mark later, nobody could run in between. After a
--        crash in between, nobody would run for a whole period.

local key, attempt, retention = KEYS[1], ARGV[1], tonumber(ARGV[2])
local channel_prefix, done = ARGV[3], ARGV[4]

--include record

local mark = read_words('period', period_run, period_due)
local known, tried = mark and mark[2] == attempt, read_words('tries', '^(%d+) ([1-9]%d*)$')
if done then
  expire()
  if holds(attempt) then
    end_exclusive()
    if tried then fields.tries = '' end
  elseif tried or not known then
    return commit('none')
  end
  serve_queue()
  return commit('released')
end
if known and tried then
  -- This run was no try. The period is due by the tries, so it keeps its end.
  extend_record(0)
  fields.tries = text(math.max(tonumber(tried[1]) - 1, 0)) .. ' ' .. tried[2]
  fields.period = mark[1] .. ' - ' .. mark[3] .. ' ' .. mark[4]
elseif known then
  extend_record(0)
  fields.period = text(now) .. ' - ' .. mark[3] .. ' ' .. mark[4]
end
if holds(attempt) then
  end_exclusive()
  known = true
end
if not known then
  local undone = read_field('undone')
  if undone and not string.find(undone, '^[^%s/]+/%S+$') then refuse('undone') end
  return undone == attempt and 'released' or 'none'
end
fields.undone = attempt
expire()
serve_queue()
return commit('released')

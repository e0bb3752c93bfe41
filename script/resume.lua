#!lua flags=allow-oom
-- resume — a leader that has restarted goes on leading, past the queue, if nobody has taken over.
--
-- KEYS   1 key             the lock's record
-- ARGV   1 attempt         the acquisition that goes on
-- ARGV   2 former          the acquisition of the leader before its restart
-- ARGV   3 token           the token of that one's grant
-- ARGV   4 ttl             lease in ms from now on; if more is left of the former one, that remains
-- ARGV   5 retention       ms for which the record outlives its last lease
-- ARGV   6 watch           the channel of the election's observers
-- ARGV   7 channel_prefix  prefix of the push channels
--
-- ANSWER resumed <token> <waiting> <left> <value>  it holds, now or since an earlier copy of this request; left: ms
--                                                  until the former lease has ended, at most; value: = if none
-- ANSWER gone                                      the former does not hold with this token, or an operator has asked
--                                                  for its end; nothing has changed
-- ERROR  FORMAT                                    the record has a later format, or no version wrote it
--
-- HOLDS  I1 I2 I3 I4 I5 I7. The hold gets a new token, and the value goes on under it. The former
--        hold is lost; its client is pushed: evicted <former>. A second process that resumes
--        the same term gets gone.
-- REPEATS yes: a copy names the hold that it took over, which is not there any more.
-- WHY    The server cannot know whether the former leader still runs. So it answers until when
--        that one may believe in its lease, and the caller waits until then. The lease counts
--        from the later copy, because the caller counts it from there.

local key, attempt, former, token, ttl = KEYS[1], ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])
local retention, watch, channel_prefix = tonumber(ARGV[5]), ARGV[6], ARGV[7]

--include record

local again = holds(attempt)
if not again and not (holds(former) and text(fence) == token) or expiry <= now or ending then return 'gone' end
if again then reacquire(attempt, nil, ttl, false) end
local left, value = expiry - now, '='
local said = read_words('leader', leader, leader_gone) or {}
if again then
  if said[1] == text(fence) then value = said[3] or '=' end
else
  send(former, 'evicted ' .. former)
  note_lost(token)
  stop_waiting(attempt)
  end_exclusive()
  grant(attempt, nil, 'x', 1, math.max(ttl, left))
  if said[1] == token and said[3] then
    value = said[3]
    fields.leader = text(fence) .. ' 0 ' .. value
    pushes[#pushes + 1] = {string.find(watch, '{', 1, true) and 'SPUBLISH' or 'PUBLISH', watch, 'leader ' .. text(fence)}
  end
end
return commit('resumed ' .. text(fence) .. ' ' .. text(waiting) .. ' ' .. text(left) .. ' ' .. value)

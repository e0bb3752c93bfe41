#!lua flags=allow-oom
-- await_free — ask whether a try would get the lock, and watch for the time when it would.
--
-- KEYS   1 key             the lock's record
-- ARGV   1 mode            as in acquire: what would be tried
-- ARGV   2 watches         1: the caller subscribes to the lock's news, and is pushed there; 0: it only asks
-- ARGV   3 retention       ms for which the record outlives its last lease
-- ARGV   4 channel_prefix  prefix of the push channels
--
-- ANSWER free                 a try would have got the lock in this step
-- ANSWER busy <left> <birth>  it would not; left: ms until the present holders may have expired; birth: of this
--                             record. The news of another database's record has another one
-- ANSWER conflict <limit>     another limit is in force, so a try would be refused
-- ERROR  FORMAT               the record has a later format, or no version wrote it
-- ERROR  ERR                  mode has no such form, or asks for no permit
--
-- HOLDS  I5 I6 I7. The caller gets no position in the queue, so it delays nobody. As poll does, it
--        ends expired holds and serves the queue.
-- REPEATS yes: it grants nothing.
-- WHY    If the answer and the mark were two steps, the lock could become free in between, and
--        nobody would be told. Only a lock that is not free gets the mark.

local key, mode, watches, retention, channel_prefix = KEYS[1], ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4]

--include record

local mode, weight, asked_limit, follow = mode, 1, nil, nil
if mode ~= 'x' and mode ~= 's' then
  weight, asked_limit, follow = string.match(mode, '^p:(%d+):(%d+)(%+?)$')
  if not weight or #weight > 15 or #asked_limit > 15 or tonumber(weight) == 0 then
    return redis.error_reply('ERR await_free: mode is of no such form, or asks for no permit')
  end
  mode, weight, asked_limit = 'p', tonumber(weight), tonumber(asked_limit)
end

expire()
local blocked = false
if waiting > 0 then
  local _
  _, blocked = serve_queue()
end
if asked_limit and limit and (limit == 0 or follow == '+') then
  if weight > limit and limit > 0 then return commit('conflict ' .. text(limit)) end
elseif asked_limit and limit and limit ~= asked_limit and (waiting > 0 or (used > 0 and shared_mode == 'p')) then
  return commit('conflict ' .. text(limit))
end
if not blocked and compatible(mode, weight) then return commit('free') end
watched = watched or watches == '1'
return commit('busy ' .. ms_until_free() .. ' ' .. text(birth or 0))

#!lua flags=allow-oom
-- convert — turn a writer's hold into a reader's, or the only reader's into a writer's.
--
-- KEYS   1 key             the lock's record
-- ARGV   1 attempt         the holder
-- ARGV   2 token           the token of its hold, as it last heard it
-- ARGV   3 mode            s: downgrade from writer to reader | x: upgrade from reader to writer
-- ARGV   4 ttl             lease in ms from now on; if more is left of the present one, that remains
-- ARGV   5 retention       ms for which the record outlives its last lease
-- ARGV   6 channel_prefix  prefix of the push channels
-- ARGV   7 owner           as in acquire
--
-- ANSWER granted <token> <waiting>  it holds in this mode, now or since an earlier copy of this request
-- ANSWER busy <left> <holder>       there are other holders, or other entries of its owner; nothing has changed
-- ANSWER gone                       it does not hold, holds with another token, or an operator has asked for its end;
--                                   nothing has changed
-- ERROR  FORMAT                     the record has a later format, or no version wrote it
--
-- HOLDS  I1 I2 I3 I4 I5 I7. A conversion is a grant with a new token. After a downgrade the first
--        readers of the queue get the lock too. An upgrade goes before the queue, because
--        everybody in it waits for that reader.
-- REPEATS yes: a copy that comes after a later conversion names an old token.
-- WHY    Between a release and an acquisition another writer could get the lock. An upgrade is
--        refused at once instead of waiting, so two readers never wait for each
--        other. The token stops a late copy from undoing a later conversion.

local key, attempt, token, mode = KEYS[1], ARGV[1], ARGV[2], ARGV[3]
local ttl, retention, channel_prefix, owner = tonumber(ARGV[4]), tonumber(ARGV[5]), ARGV[6], ARGV[7]

--include record

local function granted(by) return commit('granted ' .. by .. ' ' .. text(waiting)) end
local function busy() return commit('busy ' .. ms_until_free() .. ' ' .. (holder or '-')) end

expire()
local writes = holds(attempt, owner)
local reads = not writes and live_share(attempt)
if reads and reads[1] ~= 's' then reads = nil end
if (writes and ending) or (reads and reads.mark == '00') then return commit('gone') end

if (mode == 'x' and writes) or (mode == 's' and reads) then return granted(reacquire(attempt, owner, ttl, false)) end

if mode == 's' and writes and text(fence) == token then
  if entries and #words(entries) > 1 then return busy() end
  ttl = math.max(ttl, expiry - now)
  extend_record(ttl)
  end_exclusive()
elseif mode == 'x' and reads and reads[4] == token then
  if used > tonumber(reads[3]) then return busy() end
  ttl, owner = math.max(ttl, reads[2] - now), reads[6]
  extend_record(ttl)
  fields['h:' .. attempt] = ''
  set_shares(0)
else
  return commit('gone')
end
stop_waiting(attempt)
local mine = grant(attempt, owner, mode, 1, ttl)
serve_queue()
return granted(mine)

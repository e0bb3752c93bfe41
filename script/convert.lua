#!lua flags=allow-oom
-- convert — let a writer go on as a reader, or the only reader as the writer, with nobody in between.
--
-- KEYS   1 key             the lock's record
-- ARGV   1 attempt         who holds
-- ARGV   2 token           the token of its hold, as it was last told
-- ARGV   3 mode            s: from writing down to reading | x: from reading up to writing
-- ARGV   4 ttl             lease in ms from now on; what is left of the present one, if that is longer
-- ARGV   5 retention       ms for which the record outlives its last lease
-- ARGV   6 channel_prefix  channel prefix of the pushes
-- ARGV   7 owner           as given to acquire
--
-- ANSWER granted <token> <waiting>  it holds as it wants, now or since an earlier copy of this request
-- ANSWER busy <left> <holder>       others hold beside it, or under its name; nothing has changed
-- ANSWER gone                       it holds neither way, or under another token; nothing has changed
-- ERROR  FORMAT                     the record is of a later format
--
-- HOLDS  I1 I2 I3 I4 I5 I7. A step is a grant and draws a new token. Readers at the head of the line
--        come in together with a writer that steps down. A reader steps up past
--        the line: everybody in it waits for that reader to leave.
-- WHY    Between a release and an acquisition another writer could come in. A
--        refusal at once, in place of a wait, is what keeps two readers that
--        step up from waiting for each other. The token keeps a copy that was
--        long on its way from undoing a later step.

local key, attempt, token, mode = KEYS[1], ARGV[1], ARGV[2], ARGV[3]
local ttl, retention, channel_prefix, owner = tonumber(ARGV[4]), tonumber(ARGV[5]), ARGV[6], ARGV[7]

--include record

local function granted(by) return commit('granted ' .. by .. ' ' .. text(waiting)) end
local function busy() return commit('busy ' .. ms_until_free() .. ' ' .. (holder or '-')) end

expire()
local writes, share = holds(attempt, owner), read_field('h:' .. attempt)
local reads = not writes and share and parse_share(share)
if reads and reads[1] ~= 's' then reads = nil end

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

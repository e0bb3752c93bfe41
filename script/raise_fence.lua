#!lua flags=allow-oom
-- raise_fence — raise the token of a hold in the second phase of a grant on several servers, and read the mark.
--
-- KEYS   1 key        the lock's record
-- KEYS   2 mark_key   the mark that the quorum keeps on this server, see mark_server
-- ARGV   1 attempt    the acquisition that holds on this server
-- ARGV   2 token      the token that its hold must have; a lower one than the present changes nothing
-- ARGV   3 retention  ms for which the record outlives its last lease
-- ARGV   4 owner      as in acquire
--
-- ANSWER raised <token> <now> <run> <mark>  the hold has this token, and the next grant a higher one; the rest is
--                                           the answer of mark_server
-- ANSWER gone                               the attempt does not hold the lock
-- ERROR  FORMAT                             the record has a later format, or no version wrote it
--
-- HOLDS  I2 I3 I4 I5. It neither lowers a token nor extends a lease.
-- REPEATS yes: the fence never falls, and only the attempt that holds raises it.
-- WHY    The servers of a quorum count separately. The client writes the highest of their
--        tokens to a majority before it trusts the grant. So every later majority
--        includes a server that counts on from there. The mark vouches for the hold, so it
--        is read while the hold is there, and one request does both.

local key, mark_key, attempt, token = KEYS[1], KEYS[2], ARGV[1], tonumber(ARGV[2])
local retention, owner = tonumber(ARGV[3]), ARGV[4]
local channel_prefix

--include record

-- raised ends the step. Reading the mark comes first: if the server refuses that, nothing
-- changes.
local function raised(own)
  local run, got = server_run(), call('HMGET', mark_key, 'run', 'mark')
  local known = got[1] or '-'
  if run == '' then run = known end
  local mark = (known == run or known == '-') and string.match(got[2] or '', '^%S+$') or '-'
  return commit('raised ' .. own .. ' ' .. text(now) .. ' ' .. run .. ' ' .. mark)
end

if holds(attempt, owner) then
  if expiry <= now then return 'gone' end
  if token > fence then
    fence = token
    extend_record(expiry - now)
  end
  return raised(text(fence))
end
local h = read_share(attempt)
if not h or h[2] <= now then return 'gone' end
if token > tonumber(h[4]) then
  fence = math.max(fence, token)
  h[4] = text(token)
  extend_record(h[2] - now)
  h[2] = h.mark .. text(h[2])
  fields['h:' .. attempt] = table.concat(h, ' ')
end
return raised(h[4])

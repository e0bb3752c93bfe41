#!lua flags=allow-oom
-- raise_fence — raise the token of a hold, as the second phase of a grant on several servers.
--
-- KEYS   1 key        the lock's record
-- ARGV   1 attempt    the acquisition that holds on this server
-- ARGV   2 token      the token that its hold must have; a lower one than the present changes nothing
-- ARGV   3 retention  ms for which the record outlives its last lease
-- ARGV   4 owner      as in acquire
--
-- ANSWER raised <token>  the hold has this token, and the next grant a higher one
-- ANSWER gone            the attempt does not hold the lock
-- ERROR  FORMAT          the record has a later format
--
-- HOLDS  I2 I3 I4 I5. It neither lowers a token nor extends a lease.
-- WHY    The servers of a quorum count separately. The client writes the highest of their
--        tokens to a majority before it trusts the grant. So every later majority
--        includes a server that counts on from there.

local key, attempt, token, retention, owner = KEYS[1], ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4]
local channel_prefix

--include record

if holds(attempt, owner) then
  if expiry <= now then return 'gone' end
  if token > fence then
    fence = token
    extend_record(expiry - now)
  end
  return commit('raised ' .. text(fence))
end
local share = read_field('h:' .. attempt)
if not share then return 'gone' end
local h = parse_share(share)
if h[2] <= now then return 'gone' end
if token > tonumber(h[4]) then
  fence = math.max(fence, token)
  h[4] = text(token)
  extend_record(h[2] - now)
  h[2] = (h.provisional and '0' or '') .. text(h[2])
  fields['h:' .. attempt] = table.concat(h, ' ')
end
return commit('raised ' .. h[4])

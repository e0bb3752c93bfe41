#!lua flags=allow-oom
-- lessen — make less of a hold, a shorter lease or fewer permits, and grant what becomes free.
--
-- KEYS   1 key             the lock's record
-- ARGV   1 attempt         the holder; a named owner's hold is never lessened, because it has several holders
-- ARGV   2 ttl             ms that the lease lasts from now on, at most; 0: as long as before
-- ARGV   3 permits         permits that it keeps, at most; 0: as many as before
-- ARGV   4 retention       ms for which the record outlives its last lease
-- ARGV   5 channel_prefix  prefix of the push channels
--
-- ANSWER lessened <left> <permits> <waiting>  what the hold has now; 1 permit if it is not of permits
-- ANSWER gone                                 it does not hold; nothing has changed
-- ERROR  FORMAT                               the record has a later format, or no version wrote it
--
-- HOLDS  I1 I2 I5 I6 I7. Nothing becomes more, so copies may come in any order and at any time. If
--        the lock may be free earlier than the waiters were told, the first waiter that receives
--        pushes is pushed: kept <attempt> <left>.
-- REPEATS yes: it names what is to remain, and more never comes back.
-- WHY    A release of some permits that named their number would release them twice if it came
--        twice. So the request names what remains.

local key, attempt, ttl, permits = KEYS[1], ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local retention, channel_prefix = tonumber(ARGV[4]), ARGV[5]

--include record

local function shorter(till) return ttl > 0 and math.min(till, now + ttl) or till end

local h = read_share(attempt)
local mine = holds(attempt) and expiry > now
if not mine and not (h and h[2] > now) then return 'gone' end
expire()
local till, keeps, earlier = nil, 1, false
if mine then
  till = shorter(expiry)
  earlier = till < expiry
  expiry, provisional = till, false
else
  till, keeps = shorter(h[2]), tonumber(h[3])
  if permits > 0 then keeps = math.min(keeps, permits) end
  earlier = till < soonest
  note_expiry(till)
  local fewer = h[3] - keeps
  h[2], h[3] = (h.mark == '00' and h.mark or '') .. text(till), text(keeps)
  fields['h:' .. attempt] = table.concat(h, ' ')
  set_shares(used - fewer)
end
serve_queue()
if earlier and not (poll_at > now and poll_at <= till) then ask_first_to_poll(till - now) end
return commit('lessened ' .. text(till - now) .. ' ' .. text(keeps) .. ' ' .. text(waiting))

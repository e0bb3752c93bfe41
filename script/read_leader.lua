#!lua flags=no-writes
-- read_leader — read who leads, changing nothing.
--
-- KEYS   1 key  the lock's record
--
-- ANSWER leader <token> <since> <left> <attempt> <value>   left: ms until its lease ends unless renewed
-- ANSWER none <left>   nobody leads; left: ms until a holder that has proclaimed nothing may be over, or 0
-- ERROR  FORMAT        the record is of a later format
--
-- HOLDS  Writes nothing. A value shows only with the token that it was proclaimed under.
-- WHY    One step, so that leader, token and value belong to one moment.

local key, retention, channel_prefix = KEYS[1], 0, ''

--include record

-- Who stands under a name, as one that has left and a lock that stays taken, leads nobody.
local value = holder and not entries and expiry > now and read_field('leader')
local token, said
if value then token, said = string.match(value, '^(%d+) %d+ (.+)$') end
if token and token == text(fence) then
  return 'leader ' .. token .. ' ' .. text(math.min(now, math.floor(fence / 1000))) .. ' ' ..
    ms_until_free() .. ' ' .. holder .. ' ' .. said
end
return 'none ' .. ms_until_free()

#!lua flags=no-writes
-- read_leader — read the leader of an election, changing nothing.
--
-- KEYS   1 key  the lock's record
--
-- ANSWER leader <token> <since> <left> <attempt> <value>   left: ms until its lease expires unless renewed
-- ANSWER none <left>   nobody leads; left: ms until a holder that has proclaimed nothing may expire, or 0
-- ERROR  FORMAT        the record has a later format, or no version wrote it
--
-- HOLDS  Writes nothing. A value is shown only with the token under which it was proclaimed.
-- REPEATS yes: it changes nothing.
-- WHY    One step, so that leader, token and value are of the same moment.

local key, retention, channel_prefix = KEYS[1], 0, ''

--include record

-- A holder under an owner's name does not lead. A kept lock has one: %kept.
local said = holder and not entries and expiry > now and read_words('leader', leader, leader_gone)
if said and said[3] and said[1] == text(fence) then
  return 'leader ' .. said[1] .. ' ' .. text(math.min(now, math.floor(fence / 1000))) .. ' ' ..
    ms_until_free() .. ' ' .. holder .. ' ' .. said[3]
end
return 'none ' .. ms_until_free()

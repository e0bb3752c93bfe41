-- acquire — take the lock if it is free; else, if asked, join its line.
--
-- KEYS   1 key        the lock's record
-- ARGV   1 attempt    who asks: <client>/<number>, unique for each acquisition
-- ARGV   2 ttl        lease in ms, at least 1
-- ARGV   3 retention  ms for which the record outlives its last lease
-- ARGV   4 want       x exclusive | s shared | p:<weight>:<limit> permits
-- ARGV   5 patience   ms for which a place in the line is kept without a sign of life; 0: do not join
-- ARGV   6 base       channel prefix of the pushes
-- ARGV   7 owner      optional: the name under which several attempts hold together
--
-- ANSWER granted <token> <waiting>     the lock is held for ttl from now on
-- ANSWER queued <place> <left>         joined, or joined before; left: ms until the holders may be over
-- ANSWER busy <left> <holder>          not free; holder is - unless exclusive
-- ANSWER conflict <limit>              permits of another limit are in use
-- ERROR  FORMAT                        the record is of a later format
--
-- HOLDS  I1 I2 I3 I5 I6. Sent again by the same attempt it gives the same
--        token, or the same place, and counts the lease from the later time.
-- WHY    A look and a grant in two steps would let two clients see the lock
--        free; a token drawn apart from its grant could be given out of order.

local key, attempt, ttl, retention = KEYS[1], ARGV[1], ARGV[2], ARGV[3]
local want, patience, base, owner = ARGV[4], ARGV[5], ARGV[6], ARGV[7]

-- The short way, for a plain mutex that nobody holds or waits for: nothing but
-- its next lease needs the record, so its life is set and not compared.
if want == 'x' and not owner then
  local got = redis.call('HMGET', key, 'fence', 'holder', 'used', 'waiting')
  if not (got[2] or got[3] or got[4]) then
    local clock = redis.call('TIME')
    local token = clock[1] .. string.sub('00000' .. clock[2], -6)
    local fence = got[1]
    -- Both have 16 digits until the year 2286, so their order as text is right.
    if not fence or (token > fence and #token == #fence) then
      local expiry = string.format('%d', string.sub(token, 1, -4) + ttl)
      if fence then
        redis.call('HSET', key, 'fence', token, 'holder', attempt, 'expiry', expiry)
      else
        redis.call('HSET', key, 'fence', token, 'holder', attempt, 'expiry', expiry, 'birth', token)
      end
      redis.call('PEXPIRE', key, string.format('%d', ttl + retention))
      return 'granted ' .. token .. ' 0'
    end
  end
end

--include record

ttl, retention, patience = tonumber(ttl), tonumber(retention), tonumber(patience)
local weight, ceiling = 1, nil
if string.sub(want, 1, 1) == 'p' then
  weight, ceiling = string.match(want, '^p:(%d+):(%d+)$')
  want, weight, ceiling = 'p', tonumber(weight), tonumber(ceiling)
end

local function granted(token) return 'granted ' .. token .. ' ' .. text(waiting) end

settle()

local mine = again(attempt, owner, ttl, true)
if mine then return granted(mine) end

if ceiling then
  if weight > ceiling then return 'conflict ' .. text(ceiling) end
  if not limit or (used == 0 and waiting == 0) then
    if limit ~= ceiling then
      limit = ceiling
      call('HSET', key, 'limit', text(limit))
    end
  elseif limit ~= ceiling then
    return 'conflict ' .. text(limit)
  end
end

local seat = waiting > 0 and call('HGET', key, 'w:' .. attempt)
local blocked = false
if waiting > 0 then
  mine, blocked = advance(seat and attempt)
  -- The line may just have let in another attempt of the same named owner.
  if owner and not mine then mine = again(attempt, owner, ttl, true) end
  if mine then return granted(mine) end
end

if seat then return wait(attempt, seat, patience) end

-- A reader that re-enters under its name does not queue behind a writer who
-- waits for that reader to leave.
if blocked and owner and want == 's' and mode == 's' then
  local all = call('HGETALL', key)
  for i = 1, #all, 2 do
    if string.sub(all[i], 1, 2) == 'h:' and words(all[i + 1])[6] == owner then blocked = false end
  end
end

if not blocked and fits(want, weight) then return granted(grant(attempt, owner, want, weight, ttl)) end
if patience == 0 then return 'busy ' .. left() .. ' ' .. (holder or '-') end

tail, waiting = tail + 1, waiting + 1
local line = tail .. ' ' .. want .. ' ' .. weight .. ' ' .. text(ttl) .. ' ' .. text(now + patience) .. ' ' .. text(now)
call('HSET', key, '#' .. tail, attempt, 'w:' .. attempt, owner and (line .. ' ' .. owner) or line,
  'tail', text(tail), 'head', text(head), 'waiting', text(waiting))
keep(patience)
return 'queued ' .. text(tail - head + 1) .. ' ' .. left()

-- record — the part that the actions share: reading a record, settling what
-- has expired, granting, and the waiting line. Not an action of its own: an
-- action includes it behind its fast path, with these locals set before:
--
--   key        the record's name
--   retention  ms for which a record outlives its last lease
--   base       channel prefix of the pushes; nil where nothing can be granted
--
-- Fields of the record (docs/protocol.md has them byte by byte):
--
--   lock       FENCE [LEASE HOLDER [+]]: last token granted, or higher after an
--              eviction; the exclusive holder; and + if any field from units on says more
--   birth      tokens below this one are not remembered
--   lost       tokens of the last holds that ended by expiry or eviction
--   entries    attempts that entered under a named owner; the owner %stays
--              stands for an attempt that has given up a lock which stays taken
--   limit      permits there are
--   units      USED MODE SOONEST: shared holders and permits in sum
--   h:ATTEMPT  one shared holder or permit
--   line       WAITING HEAD TAIL: the line in sum
--   #PLACE     the attempt that stands at PLACE
--   w:ATTEMPT  one waiter
--   evicted    when, by whom and why an operator last took the lock away

local call = redis.call
local clock = call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local micros = clock[1] * 1000000 + clock[2]

-- Whole numbers beyond 1e14 lose digits in Lua's own conversion.
local function text(n) return string.format('%d', n) end

-- An array costs the server half a microsecond an element on its way into Lua:
-- so what is read together is one field.
local got = call('HMGET', key, 'lock', 'birth', 'lost', 'entries', 'limit', 'units', 'line')
local written, birth, lost, entries, limit = got[1], tonumber(got[2]), got[3], got[4], tonumber(got[5])
local fence, holder, expiry
local used, mode, soonest = 0, false, nil
local waiting, head, tail = 0, 1, 0
if written then
  local word, lease, name = string.match(written, '^(%d+) ?(%-?%d*) ?@?(%S*)')
  if not word then
    return redis.error_reply('FORMAT the record ' .. key .. ' was written by a newer Holdfast')
  end
  fence, holder = tonumber(word), name ~= '' and name ~= '-' and name
  if holder then expiry = math.floor(fence / 1000) + lease end
end
if got[6] then
  local n, kind, bound = string.match(got[6], '^(%d+) (%a) (%d+)$')
  used, mode, soonest = tonumber(n), kind, tonumber(bound)
end
if got[7] then
  local n, first, last = string.match(got[7], '^(%d+) (%d+) (%d+)$')
  waiting, head, tail = tonumber(n), tonumber(first), tonumber(last)
end

-- life is ms and the retention after it. A fence that runs ahead of the clock
-- (the clock was set back) is kept until the clock has passed it, so that
-- tokens go on rising.
local function life(ms)
  local ahead = 0
  if fence and fence > micros then ahead = math.ceil((fence - micros) / 1000) end
  return text(ms + retention + ahead)
end

-- keep makes the record outlive ms and the retention after it, and never
-- shortens its life. It needs no memory, so what may follow it in one script is
-- written although the server is full: whoever already holds or waits calls it
-- first.
local function keep(ms)
  if call('PEXPIRE', key, life(ms), 'GT') == 0 and call('PTTL', key) < 0 then
    call('PEXPIRE', key, life(ms))
  end
end

-- lose remembers a token whose hold did not end by its own release.
local function lose(token)
  local list = lost and (lost .. ' ' .. token) or token
  local _, spaces = string.gsub(list, ' ', '')
  if spaces >= 16 then
    local first, rest = string.match(list, '^(%S+) (.*)$')
    list = rest
    birth = math.max(birth, tonumber(first) + 1)
    call('HSET', key, 'birth', text(birth))
  end
  lost = list
  call('HSET', key, 'lost', list)
end

-- ended tells a hold that was released (or never lost) from one that was lost.
local function ended(token)
  local n = tonumber(token)
  if not (n and fence) or n < birth or n > fence then return false end
  return not string.find(' ' .. (lost or '') .. ' ', ' ' .. token .. ' ', 1, true)
end

-- mark writes the field lock as it must be now: every step that changes fence,
-- exclusive holder, or whether anybody shares or waits ends with it.
local function mark()
  local more = (used > 0 or waiting > 0) and ' +' or ''
  local form = text(fence)
  if holder then
    form = form .. ' ' .. text(expiry - math.floor(fence / 1000)) .. (entries and ' @' or ' ') .. holder .. more
  elseif more ~= '' then
    form = form .. ' 0 - +'
  end
  if form ~= written then call('HSET', key, 'lock', form) end
  written = form
end

-- vacate ends the exclusive hold. It begins with what needs no memory, see keep.
local function vacate()
  call('HDEL', key, 'entries')
  holder, entries, expiry = false, false, nil
  mark()
end

-- units sets the sum over shared holders and permits.
local function units(n)
  used = n
  if n > 0 then
    call('HSET', key, 'units', text(n) .. ' ' .. mode .. ' ' .. text(soonest))
  else
    call('HDEL', key, 'units')
    mode, soonest = false, nil
  end
  mark()
end

-- queue sets the line in sum; an empty line leaves no field.
local function queue(n, first, last)
  waiting, head, tail = n, first, last
  if n > 0 then
    call('HSET', key, 'line', text(n) .. ' ' .. text(first) .. ' ' .. text(last))
  else
    call('HDEL', key, 'line')
    head, tail = 1, 0
  end
  mark()
end

local function words(line)
  local list = {}
  for word in string.gmatch(line, '%S+') do list[#list + 1] = word end
  return list
end

-- settle ends every hold whose expiry has passed. Soonest is a lower bound of
-- the shared holders' expiries, so the scan runs only when one may be over.
local function settle()
  if holder and expiry <= now then
    local who = holder
    vacate()
    -- What was given up and stayed taken is over, not lost.
    if who ~= '%stays' then lose(text(fence)) end
  end
  if used > 0 and soonest <= now then
    local left, bound, over = used, nil, {}
    local all = call('HGETALL', key)
    for i = 1, #all, 2 do
      if string.sub(all[i], 1, 2) == 'h:' then
        local h = words(all[i + 1])
        if tonumber(h[2]) <= now then
          call('HDEL', key, all[i])
          over[#over + 1] = h[4]
          left = left - h[3]
        elseif not bound or tonumber(h[2]) < bound then
          bound = tonumber(h[2])
        end
      end
    end
    soonest = bound
    units(left)
    table.sort(over)
    for _, token in ipairs(over) do lose(token) end
  end
end

-- fits says whether a hold of this mode and weight may stand beside those
-- that stand.
local function fits(want, weight)
  if holder then return false end
  if used == 0 then return true end
  if want == 'x' or want ~= mode then return false end
  return want == 's' or used + weight <= limit
end

-- grant writes a holder in and answers its token.
local function grant(attempt, owner, want, weight, ttl)
  fence = math.max(micros, (fence or 0) + 1)
  local token = text(fence)
  if want == 'x' then
    holder, entries, expiry = owner or attempt, owner and attempt, now + ttl
    if entries then call('HSET', key, 'entries', entries) end
    mark()
  else
    local line = want .. ' ' .. text(now + ttl) .. ' ' .. weight .. ' ' .. token .. ' ' .. text(now)
    call('HSET', key, 'h:' .. attempt, owner and (line .. ' ' .. owner) or line)
    mode = want
    soonest = soonest and math.min(soonest, now + ttl) or now + ttl
    units(used + weight)
  end
  if not birth then
    birth = fence
    call('HSET', key, 'birth', token)
  end
  -- Nothing but this lease needs the record: its life is set, as the short
  -- way of acquire does it.
  if want == 'x' and waiting == 0 then
    call('PEXPIRE', key, life(ttl))
  else
    keep(ttl)
  end
  return token
end

-- withdraw takes a waiter out of the line.
local function withdraw(attempt, place)
  call('HDEL', key, 'w:' .. attempt, '#' .. place)
  queue(waiting - 1, head, tail)
end

-- push tells a waiter's client of its grant, and answers whether it listens
-- here. That is asked first: PUBLISH goes to the replicas too, and who listens
-- at one would take for its own what the next in line then gets. Where counting
-- or publishing is not permitted nobody can be heard: waiters then find their
-- turn by polling.
local function push(attempt, token)
  local count, verb = 'NUMSUB', 'PUBLISH'
  if string.find(base, '{', 1, true) then count, verb = 'SHARDNUMSUB', 'SPUBLISH' end
  local channel = base .. string.match(attempt, '^[^/]*')
  local there = redis.pcall('PUBSUB', count, channel)
  if there.err or there[2] == 0 then return false end
  local heard = redis.pcall(verb, channel, 'granted ' .. attempt .. ' ' .. token .. ' ' .. text(waiting))
  return type(heard) == 'number' and heard > 0
end

-- admit lets in whoever waits from place on in the name of the owner that has
-- just been granted the lock: they hold together. Who does not listen is passed
-- over, and caller asks by itself.
local function admit(place, caller)
  local together = entries
  for at = place, tail do
    local attempt = waiting > 0 and call('HGET', key, '#' .. at)
    local w = attempt and attempt ~= caller and words(call('HGET', key, 'w:' .. attempt))
    if w and w[7] == holder and tonumber(w[5]) > now then
      waiting = waiting - 1
      local heard = push(attempt, text(fence))
      waiting = waiting + 1
      if heard then
        withdraw(attempt, at)
        keep(tonumber(w[4]))
        together = together .. ' ' .. attempt
        expiry = math.max(expiry, now + tonumber(w[4]))
      end
    end
  end
  if together ~= entries then
    entries = together
    call('HSET', key, 'entries', entries)
    mark()
  end
end

-- advance grants the lock to the head of the line for as long as the head
-- fits. A waiter whose client does not listen is passed over and keeps its
-- place until its patience is over; caller is the attempt that asks right
-- now: it is heard without a push. Answers the caller's token if it was
-- granted, and whether a waiter stands that nobody may overtake.
local function advance(caller)
  local place, mine, blocked = head, nil, false
  while waiting > 0 and place <= tail and not holder do
    local attempt = call('HGET', key, '#' .. place)
    if attempt then
      -- place mode weight ttl patience-ends joined [owner]
      local w = words(call('HGET', key, 'w:' .. attempt))
      if attempt ~= caller and tonumber(w[5]) <= now then
        withdraw(attempt, place)
      elseif not fits(w[2], tonumber(w[3])) then
        blocked = true
        break
      else
        local token = text(math.max(micros, (fence or 0) + 1))
        waiting = waiting - 1
        local heard = attempt == caller or push(attempt, token)
        waiting = waiting + 1
        if heard then
          withdraw(attempt, place)
          grant(attempt, w[7], w[2], tonumber(w[3]), tonumber(w[4]))
          if attempt == caller then mine = token end
          if entries then admit(place + 1, caller) end
        end
      end
    end
    place = place + 1
  end
  -- Skip the holes in front, so that no later step walks over them again.
  local first = head
  while waiting > 0 and first < tail and call('HEXISTS', key, '#' .. first) == 0 do first = first + 1 end
  if waiting > 0 and first ~= head then queue(waiting, first, tail) end
  return mine, blocked or (waiting > 0 and holder ~= false)
end

-- left answers for how long the present holders can keep a waiter out, in ms.
local function left()
  local till = holder and expiry or (used > 0 and soonest) or now
  return text(math.max(till - now, 0))
end

-- entered says whether attempt is among the entries of the named owner.
local function entered(attempt)
  return entries and string.find(' ' .. entries .. ' ', ' ' .. attempt .. ' ', 1, true) ~= nil
end

-- holds says whether attempt is the exclusive holder, or an entry of it.
local function holds(attempt, owner)
  if owner then return holder == owner and entered(attempt) end
  return holder == attempt and not entries
end

-- again answers the token of a hold that attempt already has: a request that
-- came twice, or, if it enters, one more entry under a named owner. Its lease
-- is counted from now; a place in the line that it no longer needs is given up.
local function again(attempt, owner, ttl, enters)
  if holder and (holds(attempt, owner) or (enters and owner and entries and holder == owner)) then
    keep(ttl)
    if owner and not entered(attempt) then
      entries = entries .. ' ' .. attempt
      call('HSET', key, 'entries', entries)
      local seat = call('HGET', key, 'w:' .. attempt)
      if seat then withdraw(attempt, words(seat)[1]) end
    end
    expiry = math.max(expiry, now + ttl)
    mark()
    return text(fence)
  end
  local share = call('HGET', key, 'h:' .. attempt)
  if not share then return nil end
  local h = words(share)
  h[2] = text(math.max(tonumber(h[2]), now + ttl))
  keep(ttl)
  call('HSET', key, 'h:' .. attempt, table.concat(h, ' '))
  return h[4]
end

-- wait prolongs a waiter's patience and answers its place.
local function wait(attempt, seat, patience)
  local w = words(seat)
  w[5] = text(now + patience)
  keep(patience)
  call('HSET', key, 'w:' .. attempt, table.concat(w, ' '))
  return 'queued ' .. text(w[1] - head + 1) .. ' ' .. left() .. ' ' .. text(now)
end

-- record — the part that the actions share: reading a record, settling what
-- has expired, granting, and the waiting line. Not an action of its own: an
-- action includes it behind its fast path, with these locals set before:
--
--   key        the record's name
--   retention  ms for which a record outlives its last lease
--   channel_prefix  channel prefix of the pushes; nil where nothing can be granted
--
-- A step is computed first and written last: what it changes is collected here, and
-- commit writes it. Until then a refusal leaves the record as it was.
--
-- Fields of the record (docs/protocol.md has them byte by byte):
--
--   lock       FENCE [LEASE HOLDER [+]]: last token granted, or higher after an
--              eviction; the exclusive holder; and + if any field from shares on says more
--   birth      tokens below this one are not remembered
--   lost       tokens of the last holds that ended by expiry or eviction
--   entries    attempts that entered under a named owner; the owner %kept
--              stands for an attempt that has given up a lock which stays taken
--   limit      permits there are
--   shares     USED MODE SOONEST: shared holders and permits in sum
--   h:ATTEMPT  one shared holder or permit
--   queue      WAITING HEAD TAIL [~TILL:PLACE] [>CURSOR] [CLIENT…]: the line in sum; who
--              looks at TILL, told by hint; where a walk goes on behind those near HEAD;
--              and clients in it that are silent
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
local got = call('HMGET', key, 'lock', 'birth', 'lost', 'entries', 'limit', 'shares', 'queue')
local lock_field, birth, lost, limit = got[1], tonumber(got[2]), got[3], tonumber(got[5])
-- An empty field has gone, see commit.
local entries = got[4] ~= '' and got[4]
local fence, holder, expiry
local used, shared_mode, soonest = 0, false, nil
local waiting, head, tail, silent = 0, 1, 0, ''
local poll_at, poll_place, cursor = 0, 0, 0
-- unsure: the exclusive hold was pushed, and not confirmed yet.
local provisional = false
if lock_field then
  local word, lease, name = string.match(lock_field, '^(%d+) ?(%-?%d*) ?@?(%S*)')
  if not word then
    return redis.error_reply('FORMAT the record ' .. key .. ' was written by a newer Holdfast')
  end
  fence, holder = tonumber(word), name ~= '' and name ~= '-' and name
  if holder then
    expiry = math.floor(fence / 1000) + tonumber(lease, 10)
    provisional = string.find(lease, '^%-?0%d') ~= nil
  end
end
if got[6] and got[6] ~= '' then
  local n, kind, bound = string.match(got[6], '^(%d+) (%a) (%d+)$')
  used, shared_mode, soonest = tonumber(n), kind, tonumber(bound)
end
if got[7] and got[7] ~= '' then
  local n, first, last, clients = string.match(got[7], '^(%d+) (%d+) (%d+)(.*)$')
  waiting, head, tail, silent = tonumber(n), tonumber(first), tonumber(last), clients
  local till, place, rest = string.match(clients, '^ ~(%d+):(%d+)(.*)$')
  if till then poll_at, poll_place, silent = tonumber(till), tonumber(place), rest end
  local from, others = string.match(silent, '^ >(%d+)(.*)$')
  if from then cursor, silent = tonumber(from), others end
end

-- What the step changes: fields by name, empty if they go; for how long the
-- record is to live; and who is to be told what.
local fields, record_life, reset_life, pushes = {}, nil, false, {}

-- read_field reads a field as the step has left it. What was read before is in seen.
local cached = {}
local function read_field(field)
  local value = fields[field]
  if value == nil then
    if cached[field] == nil then cached[field] = call('HGET', key, field) end
    value = cached[field]
  end
  return value ~= '' and value
end

-- extend_record makes the record outlive ms and the retention after it, and never
-- shortens its life.
local function extend_record(ms) record_life = math.max(record_life or 0, ms) end

-- What the step has changed is written in three parts, and each prefix of them is
-- safe. The life comes first: where it may not be set nothing is written, and a key
-- that was there is never without one. Then one HSET is the whole step: fields that go
-- are made empty by it, which counts as absent; the HDEL behind it only clears them
-- away. What is published last is true by then, and who cannot be told looks by itself.

-- set_record_ttl sets the record's life. Known is false if there is no record yet, span is
-- the life in ms.
local known, life_ms = true, nil
local function set_record_ttl()
  -- Who made the record may not have come to give it a life: its first hold shows that.
  if not record_life and fence and birth == fence and call('PTTL', key) == -1 then
    record_life = math.max((expiry or soonest or now) - now, 0)
  end
  if not record_life then return end
  -- A fence that runs ahead of the clock (the clock was set back) is kept until
  -- the clock has passed it, so that tokens go on rising. So does a lease from before
  -- that last longer: the two are not added.
  local ahead = 0
  if fence and fence > micros then ahead = math.ceil((fence - micros) / 1000) end
  life_ms = text(math.max(record_life, ahead) + retention)
  if reset_life then
    known = call('PEXPIRE', key, life_ms) == 1
  elseif call('PEXPIRE', key, life_ms, 'GT') == 0 then
    local life = call('PTTL', key)
    if life == -1 then call('PEXPIRE', key, life_ms) end
    known = life ~= -2
  end
end

-- write_fields writes the fields, no more than most values in one call. The field lock is as fence, exclusive holder, and whether
-- anybody shares or waits are now.
local most = 1000
local function write_fields()
  if fence then
    local more = (used > 0 or waiting > 0) and ' +' or ''
    local form = text(fence)
    if holder then
      local lease = text(expiry - math.floor(fence / 1000))
      if provisional then lease = string.gsub(lease, '^%-?', '%00') end
      form = form .. ' ' .. lease .. (entries and ' @' or ' ') .. holder .. more
    elseif more ~= '' then
      form = form .. ' 0 - +'
    end
    if form ~= lock_field then fields.lock = form end
  end
  local set, gone = {}, {}
  for field, value in pairs(fields) do
    set[#set + 1], set[#set + 2] = field, value
    if value == '' then gone[#gone + 1] = field end
  end
  if #set > most then
    -- Lua hands over some thousands of values at most: what goes, goes first, and what
    -- says how much there is comes last.
    set = {}
    for field, value in pairs(fields) do
      if value ~= '' then set[#set + 1], set[#set + 2] = field, value end
    end
    for first = 1, #gone, most do
      local part = {}
      for i = first, math.min(first + most - 1, #gone) do part[#part + 1], part[#part + 2] = gone[i], '' end
      call('HSET', key, unpack(part))
    end
  end
  if #set > 0 then call('HSET', key, unpack(set)) end
  if not known then call('PEXPIRE', key, life_ms) end
  for first = 1, #gone, most do
    redis.pcall('HDEL', key, unpack(gone, first, math.min(first + most - 1, #gone)))
  end
end

-- publish publishes.
local function publish()
  for _, push in ipairs(pushes) do redis.pcall(push[1], push[2], push[3]) end
end

-- commit ends the step, and answers answer.
local function commit(answer)
  set_record_ttl()
  write_fields()
  publish()
  return answer
end

-- note_lost remembers a token whose hold did not end by its own release.
local function note_lost(token)
  local list = lost and (lost .. ' ' .. token) or token
  local _, spaces = string.gsub(list, ' ', '')
  if spaces >= 16 then
    local first, rest = string.match(list, '^(%S+) (.*)$')
    list = rest
    birth = math.max(birth, tonumber(first) + 1)
    fields.birth = text(birth)
  end
  lost = list
  fields.lost = list
end

-- was_released tells a hold that was released (or never lost) from one that was lost.
local function was_released(token)
  local n = tonumber(token)
  if not (n and fence) or n < birth or n > fence then return false end
  return not string.find(' ' .. (lost or '') .. ' ', ' ' .. token .. ' ', 1, true)
end

-- end_exclusive ends the exclusive hold.
local function end_exclusive()
  if entries then fields.entries = '' end
  holder, entries, expiry, provisional = false, false, nil, false
end

-- set_shares sets the sum over shared holders and permits.
local function set_shares(n)
  used = n
  if n > 0 then
    fields.shares = text(n) .. ' ' .. shared_mode .. ' ' .. text(soonest)
  else
    fields.shares = ''
    shared_mode, soonest = false, nil
  end
end

-- A step looks at so many places from HEAD on, and at so many from CURSOR on: it costs
-- the same however long the line is.
local head_window, cursor_window = 64, 256

-- set_queue sets the line in sum; an empty line leaves no field.
local function set_queue(n, first, last)
  waiting, head, tail = n, first, last
  if n > 0 then
    local watch = poll_at > 0 and ' ~' .. text(poll_at) .. ':' .. text(poll_place) or ''
    local from = cursor > head + head_window and ' >' .. text(cursor) or ''
    local sum = text(n) .. ' ' .. text(first) .. ' ' .. text(last) .. watch .. from .. silent
    fields.queue = sum ~= got[7] and sum or nil
  else
    fields.queue = ''
    head, tail, silent, poll_at, poll_place, cursor = 1, 0, '', 0, 0, 0
  end
end

-- mark_silent notes that the client of an attempt is silent: what was pushed to it was not
-- confirmed. Its waiters are passed over until it shows life. No more than 16 are
-- remembered; one that is forgotten costs the line the time of one more push.
local function mark_silent(attempt)
  local client = ' ' .. string.match(attempt, '^[^/]*')
  if waiting == 0 or string.find(silent .. ' ', client .. ' ', 1, true) then return end
  silent = silent .. client
  local _, count = string.gsub(silent, ' ', '')
  if count > 16 then silent = string.match(silent, '^ %S+(.*)$') end
  set_queue(waiting, head, tail)
end

-- clear_silent takes that note away: the attempt's client asks.
local function clear_silent(attempt)
  if silent == '' then return end
  local client = ' ' .. string.match(attempt, '^[^/]*') .. ' '
  local from, to = string.find(silent .. ' ', client, 1, true)
  if not from then return end
  silent = string.sub(silent, 1, from - 1) .. string.sub(silent, to)
  set_queue(waiting, head, tail)
end

local function words(value)
  local list = {}
  for word in string.gmatch(value, '%S+') do list[#list + 1] = word end
  return list
end

-- parse_share reads a field h:ATTEMPT. A 0 in front of its expiry says that it was pushed,
-- and not confirmed yet.
local function parse_share(value)
  local h = words(value)
  h.provisional = string.sub(h[2], 1, 1) == '0'
  h[2] = tonumber(h[2], 10)
  return h
end

-- end_shares looks at all shared holders and permits. Those of which over(token, expiry)
-- is true end; then, or if asked to count, the sum is made anew from those that stay.
-- It reads the whole record: once when some have expired, and not for each of them.
-- It answers, in order, the tokens that ended, the attempts that they were of, and
-- whether they were unsure.
local function end_shares(over, count)
  local left, bound, gone = 0, nil, {}
  local all = call('HGETALL', key)
  for i = 1, #all, 2 do
    local value = fields[all[i]] or all[i + 1]
    if value == '' then
      fields[all[i]] = ''
    elseif string.sub(all[i], 1, 2) == 'h:' then
      local h = parse_share(value)
      local till = h[2]
      if over(h[4], till) then
        fields[all[i]] = ''
        gone[#gone + 1] = {tonumber(h[4]), h[4], string.sub(all[i], 3), h.provisional}
      else
        left = left + h[3]
        if not bound or till < bound then bound = till end
      end
    end
  end
  if count or #gone > 0 then
    soonest = bound
    set_shares(left)
  end
  table.sort(gone, function(a, b) return a[1] < b[1] end)
  return gone
end

-- expire ends every hold whose expiry has passed. Soonest is a lower bound of
-- the shared holders' expiries, so the scan runs only when one may be over.
local function expire()
  if holder and expiry <= now then
    local who = holder
    if provisional then
      for _, attempt in ipairs(words(entries or holder)) do mark_silent(attempt) end
    end
    end_exclusive()
    -- What was given up and stayed taken is over, not lost.
    if who ~= '%kept' then note_lost(text(fence)) end
  end
  if used > 0 and soonest <= now then
    local gone = end_shares(function(_, till) return till <= now end, true)
    for _, h in ipairs(gone) do
      note_lost(h[2])
      if h[4] then mark_silent(h[3]) end
    end
  end
end

-- compatible says whether a hold of this mode and weight may stand beside those
-- that stand.
local function compatible(mode, weight)
  if holder then return false end
  if used == 0 then return true end
  if mode == 'x' or mode ~= shared_mode then return false end
  return mode == 's' or used + weight <= limit
end

-- provisional_lease is the lease of a grant that is pushed, until it is confirmed.
local function provisional_lease(ttl) return math.min(ttl, math.max(2000, math.floor(ttl / 10))) end

-- grant writes a holder in and answers its token. One that is pushed holds briefly
-- until it asks: the 0 in front of its lease, or expiry, says so.
local function grant(attempt, owner, mode, weight, ttl, pushed)
  fence = math.max(micros, (fence or 0) + 1)
  local token, lease = text(fence), pushed and provisional_lease(ttl) or ttl
  extend_record(ttl)
  if mode == 'x' then
    holder, entries, expiry, provisional = owner or attempt, owner and attempt, now + lease, pushed
    if entries then fields.entries = entries end
    -- Nothing but this lease needs the record: its life is set, as the short
    -- way of acquire does it.
    if waiting == 0 then record_life, reset_life = ttl, true end
  else
    local till = (pushed and '0' or '') .. text(now + lease)
    local value = mode .. ' ' .. till .. ' ' .. weight .. ' ' .. token .. ' ' .. text(now)
    fields['h:' .. attempt] = owner and (value .. ' ' .. owner) or value
    shared_mode = mode
    soonest = soonest and math.min(soonest, now + lease) or now + lease
    set_shares(used + weight)
  end
  if not birth then
    birth = fence
    fields.birth = token
  end
  return token
end

-- leave_queue takes a waiter out of the line. Who has left looks no more: see serve_queue.
local missed_poll_at = 0
local function leave_queue(attempt, place)
  fields['w:' .. attempt], fields['#' .. place] = '', ''
  if tonumber(place) == poll_place then missed_poll_at, poll_at, poll_place = poll_at, 0, 0 end
  set_queue(waiting - 1, head, tail)
end

-- stop_waiting gives up the place of an attempt, if it has one.
local function stop_waiting(attempt)
  local waits = waiting > 0 and read_field('w:' .. attempt)
  if waits then leave_queue(attempt, words(waits)[1]) end
end

-- channel_of says where a waiter's client can be told something, if it listens here and is
-- not silent. That is asked before anything is written: a push goes to the replicas too, and
-- who listens at one is not to be told what the next in line then gets. Where counting
-- or publishing is not permitted nobody is told: waiters then find their turn by looking.
local subscribers, may_publish, count, verb = {}, nil, 'NUMSUB', 'PUBLISH'
if channel_prefix and string.find(channel_prefix, '{', 1, true) then count, verb = 'SHARDNUMSUB', 'SPUBLISH' end
local function channel_of(attempt)
  local client = string.match(attempt, '^[^/]*')
  if silent ~= '' and string.find(silent .. ' ', ' ' .. client .. ' ', 1, true) then return nil end
  local channel = channel_prefix .. client
  if not subscribers[channel] then subscribers[channel] = redis.pcall('PUBSUB', count, channel)[2] or 0 end
  if subscribers[channel] == 0 then return nil end
  if may_publish == nil then
    local check, known, may = redis.acl_check_cmd, true, true
    if check then known, may = pcall(check, verb, channel, '') end
    may_publish = known and may
  end
  return may_publish and {verb, channel}
end

-- read_ahead reads ahead, in three calls, who stands at these places, what they want, and
-- whether they listen.
local function read_ahead(from, to)
  local places, waits, channels = {}, {}, {}
  for place = from, to do places[#places + 1] = '#' .. place end
  for i, attempt in ipairs(call('HMGET', key, unpack(places))) do
    cached[places[i]] = attempt
    if attempt and attempt ~= '' then
      local channel = channel_prefix .. string.match(attempt, '^[^/]*')
      waits[#waits + 1] = 'w:' .. attempt
      if not subscribers[channel] then subscribers[channel], channels[#channels + 1] = 0, channel end
    end
  end
  if #waits == 0 then return end
  for i, w in ipairs(call('HMGET', key, unpack(waits))) do cached[waits[i]] = w end
  if #channels == 0 then return end
  local there = redis.pcall('PUBSUB', count, unpack(channels))
  for i = 1, #there, 2 do subscribers[there[i]] = there[i + 1] end
end

-- each_waiter shows visit the places that are taken, in order, until it says that it is enough:
-- those near HEAD, then those from CURSOR on, behind others who were passed over and have
-- not asked since; none out of reach. It answers where it ended.
local function each_waiter(visit)
  local place, known, ahead = head, head, 4
  local last = math.max(head + head_window, cursor) + cursor_window
  while waiting > 0 and place <= tail and place < last do
    if place > known then
      known = math.min(place + ahead - 1, tail)
      read_ahead(place, known)
      ahead = math.min(4 * ahead, head_window)
    end
    local attempt = read_field('#' .. place)
    if attempt and visit(attempt, place) then break end
    place = place + 1
    if place == head + head_window then place = math.max(place, cursor) end
  end
  return place
end

-- send says that a waiter's client will be pushed what, if it can hear it.
local function send(attempt, what)
  local push = channel_of(attempt)
  if not push then return false end
  push[3] = what
  pushes[#pushes + 1] = push
  return true
end

-- ask_to_poll asks a waiter to look in so many ms, if it can be told.
local function ask_to_poll(attempt, left) return send(attempt, 'kept ' .. attempt .. ' ' .. text(left)) end

-- notify is told of a grant. The waiter itself still counts among those who wait.
local function notify(attempt, token, ttl)
  return send(attempt, 'granted ' .. attempt .. ' ' .. token .. ' ' .. text(waiting - 1) ..
    ' ' .. text(now) .. ' ' .. text(provisional_lease(ttl)))
end

-- grant_same_owner lets in whoever waits in the name of the owner that has just been granted the
-- lock: they hold together. Who does not listen is passed over, and caller asks by
-- itself; so does who stands out of reach.
local function grant_same_owner(caller)
  each_waiter(function(attempt, place)
    local w = words(attempt ~= caller and read_field('w:' .. attempt) or '')
    if w[1] and w[7] == holder and tonumber(w[5]) > now and notify(attempt, text(fence), tonumber(w[4])) then
      leave_queue(attempt, place)
      extend_record(tonumber(w[4]))
      entries = entries .. ' ' .. attempt
      fields.entries = entries
      expiry = math.max(expiry, now + provisional_lease(tonumber(w[4])))
    end
  end)
end

-- above_limit says that a waiter wants more permits than there are since the limit was
-- lowered: it leaves the line, or it would stop it for good.
local function above_limit(w) return w[2] == 'p' and limit and tonumber(w[3]) > limit end

-- advance grants the lock to the head of the line for as long as the head
-- fits. A waiter whose client does not listen is passed over, whether it fits or
-- not, and keeps its place until its patience is over; caller is the attempt that
-- asks right now: it is heard without a push. Answers the caller's token if it was
-- granted, and whether a waiter stands that nobody may overtake.
--
-- Whoever asks is looked at again, though it was passed over. Unfinished: the lock may
-- be free, and others wait out of reach.
local unfinished = false
local function serve_queue(caller)
  local mine, blocked, pushed = nil, false, false
  local own = caller and words(read_field('w:' .. caller))
  if own then cursor = math.min(cursor, tonumber(own[1])) end
  if own and above_limit(own) then
    leave_queue(caller, own[1])
    caller = nil
  end
  local reached = holder and head or each_waiter(function(attempt, place)
    -- place mode weight ttl patience-ends joined [owner]
    local w = words(read_field('w:' .. attempt) or '')
    local ttl = tonumber(w[4])
    if not ttl then return false end
    if attempt ~= caller and tonumber(w[5]) <= now or above_limit(w) then
      leave_queue(attempt, place)
    elseif not compatible(w[2], tonumber(w[3])) then
      blocked = attempt == caller or channel_of(attempt) ~= nil
    elseif attempt == caller or notify(attempt, text(math.max(micros, (fence or 0) + 1)), ttl) then
      leave_queue(attempt, place)
      if attempt ~= caller then pushed = attempt end
      local token = grant(attempt, w[7], w[2], tonumber(w[3]), ttl, attempt ~= caller)
      if attempt == caller then mine = token end
      if entries then grant_same_owner(caller) end
    end
    return blocked or holder
  end)
  unfinished = waiting > 0 and reached <= tail and not (holder or blocked)
  if waiting > 0 then
    cursor = math.max(cursor, reached)
    -- Skip holes in front, but fewer than are near HEAD: nobody whom this walk left out
    -- is near it now.
    local first, stop = head, math.min(tail, head + head_window / 2)
    while first < stop and not read_field('#' .. first) do first = first + 1 end
    set_queue(waiting, first, tail)
  end
  if unfinished and (mine or not caller or not ask_to_poll(caller, 1)) then
    -- One of the last looks at once: it may be somebody's turn out of reach.
    local from, at = math.max(reached, tail - head_window + 1), tail
    read_ahead(from, tail)
    while at >= from and not (read_field('#' .. at) and ask_to_poll(read_field('#' .. at), 1)) do at = at - 1 end
  end
  -- Nobody else looks when a grant that was pushed may be over unconfirmed. So one in
  -- line is told when that is: the last, or the next if the last is of the same client.
  -- As long as it looks and learns how long it has to wait, nobody else need be told. If it
  -- leaves before that, another is told.
  local till = 0
  if pushed then
    till = holder and expiry or soonest
  elseif not mine and (holder or used > 0) then
    till = missed_poll_at
  end
  if till > now and waiting > 0 and not (poll_at > now and poll_place >= reached) then
    local unconfirmed = pushed or (provisional and words(entries or holder)[1]) or '/'
    local client, other, at = string.match(unconfirmed, '^[^/]*/'), read_field('#' .. tail), tail
    if not other or string.sub(other, 1, #client) == client then
      other, at = false, reached - 1
      while at < math.min(tail, reached + head_window - 1) and not other do
        at = at + 1
        other = read_field('#' .. at)
      end
    end
    if other and string.sub(other, 1, #client) ~= client and
      (other == caller or ask_to_poll(other, till - now)) then
      poll_at, poll_place = till, at
      set_queue(waiting, head, tail)
    end
  end
  return mine, blocked or unfinished or (waiting > 0 and holder ~= false)
end

-- ms_until_free answers for how long the present holders can keep a waiter out, in ms.
local function ms_until_free()
  local till = holder and expiry or (used > 0 and soonest) or now
  return text(math.max(till - now, 0))
end

-- is_entry says whether attempt is among the entries of the named owner.
local function is_entry(attempt)
  return entries and string.find(' ' .. entries .. ' ', ' ' .. attempt .. ' ', 1, true) ~= nil
end

-- holds says whether attempt is the exclusive holder, or an entry of it.
local function holds(attempt, owner)
  if owner then return holder == owner and is_entry(attempt) end
  return holder == attempt and not entries
end

-- reacquire answers the token of a hold that attempt already has: a request that
-- came twice, or, if it enters, one more entry under a named owner. Its lease
-- is counted from now; a place in the line that it no longer needs is given up.
local function reacquire(attempt, owner, ttl, enters)
  if holder and (holds(attempt, owner) or (enters and owner and entries and holder == owner)) then
    extend_record(ttl)
    if owner and not is_entry(attempt) then
      entries = entries .. ' ' .. attempt
      fields.entries = entries
      stop_waiting(attempt)
    end
    expiry, provisional = math.max(expiry, now + ttl), false
    return text(fence)
  end
  local share = read_field('h:' .. attempt)
  if not share then return nil end
  local h = parse_share(share)
  h[2] = text(math.max(h[2], now + ttl))
  extend_record(ttl)
  fields['h:' .. attempt] = table.concat(h, ' ')
  return h[4]
end

-- keep_waiting prolongs a waiter's patience and answers its place.
local function keep_waiting(attempt, waiter, waiter_ttl)
  local w = words(waiter)
  w[5] = text(now + waiter_ttl)
  extend_record(waiter_ttl)
  fields['w:' .. attempt] = table.concat(w, ' ')
  return 'queued ' .. text(w[1] - head + 1) .. ' ' .. ms_until_free() .. ' ' .. text(now)
end

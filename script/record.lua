-- record — the part that scripts share: it reads a record, ends expired holds, grants,
-- and serves the wait queue. It is not a script by itself. A script includes it behind
-- its fast path and sets these locals first:
--
--   key             the record's name
--   retention       ms for which the record outlives its last lease
--   channel_prefix  prefix of the push channels; nil if the script never grants
--
-- One run of a script is a step. A step first computes and then writes: it collects its
-- changes in locals, and commit writes them. A refusal before commit changes nothing.
--
-- A step believes no field that it has not checked. If no version wrote what it reads, it
-- answers FORMAT and changes nothing: see refuse. Every loop over places is bounded by a count.
--
-- Fields of the record (docs/protocol.md has them byte by byte):
--
--   lock       FENCE [LEASE HOLDER [+][!]]: the fence, which is the highest token; the
--              exclusive holder; + if the record has a field shares or queue; ! if
--              somebody watches for the lock to become free. Or FENCE LEASE HOLDER +1 TILL
--              JOINED TTL 0LEASE ATTEMPT: the only waiter is a part of it, see only_waiter
--   birth      the record does not remember tokens below this one
--   lost       tokens of the last holds that ended by expiry or eviction
--   entries    the attempts that hold under one named owner. The owner %kept stands for
--              a lock that was released and remains locked for a while
--   limit      the number of permits; 0: no permit is granted, see set_limit
--   shares     USED MODE SOONEST [>CURSOR:RUN:FOUND]: the sum over all shared holders, or all
--              permits in use; while a sweep (a walk over all holders,
--              which ends expired ones) is under way, where it goes on
--   h:ATTEMPT  one shared holder, or one holder of permits
--   queue      WAITING HEAD TAIL [~TILL:PLACE] [>CURSOR] [?UNTIL:END[:PLACE…]] [CLIENT…]: the
--              number of waiters; the first and the last place; the waiter at PLACE polls at
--              TILL; a step goes on at CURSOR after the first places; the waiters before END were
--              asked to poll by UNTIL, and those at each PLACE have done so; silent clients
--   #PLACE     the attempt at this place of the queue
--   w:ATTEMPT  one waiter
--   evicted    the last eviction: when, by whom, and why

local call = redis.call
local clock = call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local micros = clock[1] * 1000000 + clock[2]

-- text writes a whole number. Lua's own conversion loses digits beyond 1e14.
local function text(n) return string.format('%d', n) end

-- Each element of an array costs the server half a microsecond on its way into Lua.
-- So values that scripts read together are one field.
local got = call('HMGET', key, 'lock', 'birth', 'lost', 'entries', 'limit', 'shares', 'queue')
local lock_field = got[1]
-- An empty field counts as absent, see commit.
for i = 2, 7 do if got[i] == '' then got[i] = false end end
local lost, entries = got[3], got[4]
if not lock_field and call('PTTL', key) ~= -2 then
  return redis.error_reply('WRONGTYPE the hash ' .. key .. ' is not a lock')
end

-- refuse ends the step with the error FORMAT, because no version wrote this field. Nothing has
-- been written by then, so the record stays as it is. The end of each script catches the error.
local function refuse(field)
  field = string.gsub(string.sub(field, 1, 80), '[%c ]', '?')
  error({damaged = 'FORMAT the record ' .. key .. ' is damaged: no Holdfast wrote its field ' .. field})
end

-- The numbers of a record have no 0 in front, but for two marks of a hold. One 0 marks a provisional hold: a
-- pushed grant that its client has not confirmed. Two mark a hold that is to end: an operator has asked for that,
-- so nothing prolongs it, and the lock passes on when it is released or its lease has ended. A time or
-- a count has at most 15 digits, and a length of time 14. So sums of them are exact numbers in
-- Lua, and adding 1 makes a larger one. A token is below most_token for the same reason. Each
-- function here costs a step a tenth of a microsecond, so the checks are written out.
local most_token = 9000000000000000

-- provisional_lease is the lease of a pushed grant, in ms, until the client confirms it.
local function provisional_lease(ttl) return math.min(ttl, math.max(2000, math.min(3000, math.floor(ttl / 10)))) end

local fence, holder, expiry = nil, false, nil
local used, shared_mode, soonest = 0, false, nil
local sweep_cursor, sweep_run, found = '0', '', nil
local waiting, head, tail, silent = 0, 1, 0, ''
local poll_at, poll_place, cursor = 0, 0, 0
local asked_until, asked_end, answers, doubt = 0, 0, '', false
-- A provisional hold was granted by a push that its holder has not confirmed yet. An ending one is to end.
local provisional, ending = false, false
local watched, birth, limit = false, nil, nil
-- alone: the attempt that was the only waiter, in the field lock, and its field w:ATTEMPT.
local alone, alone_waiter = nil, nil
if lock_field then
  local word, rest = string.match(lock_field, '^(%d+)(.*)$')
  if not word then
    return redis.error_reply('FORMAT the record ' .. key .. ' was written by a newer Holdfast')
  end
  fence = tonumber(word)
  if #word > 16 or fence >= most_token then refuse('lock') end
  local at, marks = '', ''
  if rest ~= '' then
    local lease, name
    lease, at, name, marks = string.match(rest, '^ (%-?%d+) (@?)(%S+)( ?%+?!?)$')
    if not lease and not got[7] then
      local till, joined, ttl, short
      lease, name, till, joined, ttl, short, alone = string.match(rest, '^ (%-?%d+) ([^@/%s][^/%s]*/%S+) %+1 ' ..
        '([1-9]%d*) ([1-9]%d*) ([1-9]%d*) 0([1-9]%d*) ([^/%s]+/%S+)$')
      if not lease or #till > 15 or #joined > 15 or #ttl > 14 or short ~= text(provisional_lease(tonumber(ttl))) then
        refuse('lock')
      end
      at, marks, got[7] = '', ' +', '1 1 1'
      alone_waiter = '1 x 1 ' .. ttl .. ' ' .. till .. ' ' .. joined
    end
    local ms = lease and tonumber(lease, 10)
    if not ms or #lease > 17 or ms >= 1e15 or ms <= -1e15 or #name > 2048 or marks == ' ' then refuse('lock') end
    if name ~= '-' then
      holder = name
      expiry = math.floor(fence / 1000) + ms
      ending = string.find(lease, '^%-?00%d') ~= nil
      provisional = not ending and string.find(lease, '^%-?0%d') ~= nil
    end
    if (holder and at == '' and not string.find(holder, '^[^/]+/.')) or (not holder and (at ~= '' or lease ~= '0')) then
      refuse('lock')
    end
    watched = string.sub(marks, -1) == '!'
  end
  -- The marks, and the other fields, agree with each other.
  local more = string.sub(marks, 2, 2) == '+'
  if string.sub(word, 1, 1) == '0' or more ~= ((got[6] or got[7]) and true or false) or (holder and got[6]) or
    (rest ~= '' and not (holder or more)) then
    refuse('lock')
  end
  if (at == '@') ~= (entries and true or false) then refuse('entries') end
  birth = string.find(got[2] or '', '^[1-9]%d*$') and tonumber(got[2])
  if not birth or birth > fence + 1 then refuse('birth') end
end
if lost then
  local list = ' ' .. lost .. ' '
  if #list > 273 or string.find(list, '[^%d ]') or string.find(list, '  ', 1, true) then refuse('lost') end
  for word in string.gmatch(lost, '%d+') do
    if string.sub(word, 1, 1) == '0' or tonumber(word) > fence then refuse('lost') end
  end
end
if entries then
  local list = ' ' .. entries .. ' '
  if #list > 1048576 or string.find(list, '%s%s') or string.find(list, '[^%S ]') or string.find(list, ' [^/ ]* ') or
    (holder == '%kept' and string.find(entries, ' ', 1, true)) then
    refuse('entries')
  end
end
if got[5] then
  limit = #got[5] <= 15 and string.find(got[5], '^%d+$') and tonumber(got[5])
  if not limit or text(limit) ~= got[5] then refuse('limit') end
end
if got[6] then
  local n, kind, bound, sweep = string.match(got[6], '^([1-9]%d*) ([sp]) ([1-9]%d*)(.*)$')
  if not n or #n > 15 or #bound > 15 then refuse('shares') end
  used, shared_mode, soonest = tonumber(n), kind, tonumber(bound)
  if sweep ~= '' then
    local from, run, least = string.match(sweep, '^ >([1-9]%d*):(%w*):(%d*)$')
    if not from or #from > 18 or #run > 64 or #least > 15 or string.find(least, '^0') then refuse('shares') end
    sweep_cursor, sweep_run, found = from, run, tonumber(least)
  end
  if kind == 'p' and not limit then refuse('limit') end
end
if got[7] then
  local n, first, last, more = string.match(got[7], '^([1-9]%d*) ([1-9]%d*) ([1-9]%d*)(.*)$')
  if not n or #n > 15 or #first > 15 or #last > 15 then refuse('queue') end
  waiting, head, tail, silent = tonumber(n), tonumber(first), tonumber(last), more
  if more ~= '' then
    local till, place, others = string.match(more, '^ ~([1-9]%d*):([1-9]%d*)(.*)$')
    if till then poll_at, poll_place, silent = tonumber(till), tonumber(place), others end
    local from, rest = string.match(silent, '^ >([1-9]%d*)(.*)$')
    if from then cursor, silent = tonumber(from), rest end
    local asked, before, places, names = string.match(silent, '^ %?([1-9]%d*):([1-9]%d*)([:%d]*)(.*)$')
    if asked then
      asked_until, asked_end, answers, silent = tonumber(asked), tonumber(before), places, names
      local others, count = string.gsub(places, ':[1-9]%d*', '')
      if #asked > 15 or asked_end > tail + 1 or others ~= '' or count > 16 then refuse('queue') end
      for place in string.gmatch(places, '%d+') do
        if #place > 15 then refuse('queue') end
      end
    end
    local _, spaces = string.gsub(silent, ' ', '')
    if (till and #till > 15) or #silent > 2048 or spaces > 16 or
      string.find(silent .. ' ', '%s%s') or string.find(silent, '[^%S ]') or string.find(silent, '^[^ ]') or
      string.find(silent, ' [~>?]') then
      refuse('queue')
    end
  end
  if waiting > tail - head + 1 or poll_place > tail or cursor > tail + 1 then refuse('queue') end
end

-- Somebody may watch for the lock to become free. The mark in the field lock sends every
-- script to its slow path, so a lock that nobody watches costs nothing more. before is what
-- the record was at the beginning of the step.
local before = watched and {
  holder = holder, used = used, waiting = waiting, limit = limit, fence = fence, till = expiry or soonest,
  birth = birth or 0,
}
-- must_queue: a newcomer may not overtake the waiters. gap: during this step, nobody held the
-- lock and nobody waited.
local must_queue, gap = waiting > 0, false

-- The changes of this step: fields by name, empty if the field goes; ms for which the
-- record must live; whether that sets its TTL or only extends it; and the pushes, those of grants
-- apart.
local fields, record_life, reset_life, pushes, grants = {}, nil, false, {}, {}
if alone then
  fields.queue, fields['#1'], fields['w:' .. alone] = got[7], alone, alone_waiter
  got[7] = false
end

-- read_field reads a field with the changes of this step. cached keeps what HGET answered.
local cached = {}
local function read_field(field)
  local value = fields[field]
  if value == nil then
    if cached[field] == nil then cached[field] = call('HGET', key, field) end
    value = cached[field]
  end
  return value ~= '' and value
end

-- extend_record makes the record live for at least ms and the retention. It never shortens
-- the TTL.
local function extend_record(ms) record_life = math.max(record_life or 0, ms) end

-- commit writes the changes in three parts. If the script ends after any of them, the
-- record is still valid.
--  1. PEXPIRE. If the server refuses it, the step changes nothing. No existing key is ever
--     without a TTL.
--  2. One HSET, which is the whole change. It makes fields that go empty, and an empty
--     field counts as absent. The HDEL after it only tidies up.
--  3. PUBLISH. By then the message is true. A client that receives none finds out by a poll.

-- set_record_ttl sets the TTL of the record. known is false if the key does not exist yet;
-- life_ms is the TTL in ms.
--
-- It returns false if it has deleted the record. Redis before 7.2 reads its clock twice in
-- PEXPIRE: for the time of expiry, and to see whether that is over. If the clock was set
-- forward in between, PEXPIRE deletes the key and answers 1. An HSET after it would make a
-- record without its other fields, and without a TTL. A fast path does not ask for that. Its
-- HSET answers how many fields are new, and lock is never new in a record that it has read.
local known, life_ms = true, nil
local function set_record_ttl()
  -- If the step that made the record was cut short, the record may have no TTL yet. Its
  -- first hold shows that.
  if not record_life and fence and birth == fence and call('PTTL', key) == -1 then
    record_life = math.max((expiry or soonest or now) - now, 0)
  end
  if not record_life then return true end
  -- If the clock was set back, the fence is ahead of it. The record then lives until the
  -- clock has passed the fence, so that tokens keep rising. A lease from before lasts as
  -- long; so this takes the longer of the two and not their sum.
  local ahead = 0
  if fence and fence > micros then ahead = math.ceil((fence - micros) / 1000) end
  life_ms = text(math.max(record_life, ahead) + retention)
  local set = reset_life and call('PEXPIRE', key, life_ms) or call('PEXPIRE', key, life_ms, 'GT')
  local life = set == 0 and reset_life and -2 or call('PTTL', key)
  if life == -1 then set, life = call('PEXPIRE', key, life_ms), call('PTTL', key) end
  known = life ~= -2
  return known or set == 0
end

-- write_fields writes the changed fields, at most so many values in one call. It computes
-- the field lock from the fence, the exclusive holder, and whether there are shared
-- holders or waiters. inline is what only_waiter has returned.
local most, inline = 1000, nil
local function write_fields()
  if fence then
    local more = (used > 0 or waiting > 0) and '+' or ''
    local marks = more .. (watched and '!' or '')
    if marks ~= '' then marks = ' ' .. marks end
    if inline then
      marks = inline
      fields.queue, fields['w:' .. read_field('#1')], fields['#1'] = '', '', ''
    end
    -- The record has no such fields that it could empty.
    for _, field in ipairs(alone and {'queue', '#1', 'w:' .. alone} or {}) do
      if fields[field] == '' then fields[field] = nil end
    end
    local form = text(fence)
    if holder then
      local lease = text(expiry - math.floor(fence / 1000))
      if provisional then lease = string.gsub(lease, '^%-?', '%00') end
      if ending then lease = string.gsub(lease, '^%-?', '%000') end
      form = form .. ' ' .. lease .. (entries and ' @' or ' ') .. holder .. marks
    elseif more ~= '' then
      form = form .. ' 0 -' .. marks
    end
    if form ~= lock_field then fields.lock = form end
  end
  local set, gone = {}, {}
  for field, value in pairs(fields) do
    set[#set + 1], set[#set + 2] = field, value
    if value == '' then gone[#gone + 1] = field end
  end
  if #set > most then
    -- Lua passes only some thousand values in one call. So fields that go are emptied
    -- first, and the fields that count the others are written last.
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

-- publish sends the pushes. Grants come last: the server first writes to the client that it was
-- told of last, and a new holder should not wait for the others.
local function publish()
  for _, push in ipairs(pushes) do redis.pcall(push[1], push[2], push[3]) end
  for _, push in ipairs(grants) do redis.pcall(push[1], push[2], push[3]) end
end

-- tell_watchers adds the push for the watchers of the lock, if a try of a newcomer could
-- succeed now, or could during this step. Like every push it is decided
-- before anything is written. If somebody else got the lock, or if it is free, then the mark
-- goes when nobody watches.
local function tell_watchers()
  if not before or (channel_prefix or '') == '' then return end
  local released = (before.holder and not holder) or used < before.used or waiting < before.waiting or
    limit ~= before.limit
  local first = expiry or soonest
  local sooner = fence == before.fence and first and before.till and first < before.till
  if not (gap or released or sooner or fence ~= before.fence) then return end
  local prefix, name = string.match(key, '^(.*):{(.*)}$')
  if not prefix then return end
  local verb, count, channel = 'PUBLISH', 'NUMSUB', prefix .. ':watch=' .. name
  if string.find(channel_prefix, '{', 1, true) then
    verb, count, channel = 'SPUBLISH', 'SHARDNUMSUB', key .. ':watch'
  end
  local there = redis.pcall('PUBSUB', count, channel)
  if there[2] == 0 then
    watched = false
    return
  end
  local news
  if limit == 0 then
    -- A try of permits would not succeed.
  elseif gap then
    news = 'free - 0 0 ' .. text(before.birth)
  elseif released and not holder and (waiting == 0 or not must_queue) then
    news = 'free ' .. (shared_mode or '-') .. ' ' .. text(used) .. ' ' .. text(limit or 0) .. ' ' .. text(before.birth)
  elseif sooner then
    news = 'sooner'
  end
  if news then pushes[#pushes + 1] = {verb, channel, news} end
  if not holder and used == 0 and waiting == 0 then watched = false end
end

-- note_lost remembers the token of a hold that did not end by a release.
local function note_lost(token)
  local list = lost and lost .. ' ' .. token or token
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

-- was_released reports whether the hold with this token was released. If not, it was lost.
local function was_released(token)
  local n = tonumber(token)
  if not (n and fence) or n < birth or n > fence then return false end
  return not string.find(' ' .. (lost or '') .. ' ', ' ' .. token .. ' ', 1, true)
end

-- end_exclusive ends the exclusive hold.
local function end_exclusive()
  if entries then fields.entries = '' end
  holder, entries, expiry, provisional, ending = false, false, nil, false, false
end

-- set_shares sets the sum over the shared holders or the permits.
local function set_shares(n)
  used = n
  if n > 0 then
    local sum = text(n) .. ' ' .. shared_mode .. ' ' .. text(soonest)
    if sweep_cursor ~= '0' then
      sum = sum .. ' >' .. sweep_cursor .. ':' .. sweep_run .. ':' .. (found and text(found) or '')
    end
    fields.shares = sum
  else
    fields.shares = ''
    shared_mode, soonest, sweep_cursor, found = false, nil, '0', nil
  end
end

-- note_expiry notes that a shared hold expires at till. A sweep that is under way may be past it.
local function note_expiry(till)
  soonest = math.min(soonest or till, till)
  found = math.min(found or till, till)
end

-- A step reads at most so many places from HEAD on, so many from CURSOR on, and so many before the
-- end. So its cost does not grow with the queue.
local head_window, cursor_window, tail_window = 64, 64, 32

-- set_queue sets the field queue. An empty queue has no field.
local function set_queue(n, first, last)
  waiting, head, tail = n, first, last
  if n > 0 then
    local watch = poll_at > 0 and ' ~' .. text(poll_at) .. ':' .. text(poll_place) or ''
    local from = cursor > head + head_window and ' >' .. text(cursor) or ''
    local asked = asked_end > 0 and ' ?' .. text(asked_until) .. ':' .. text(asked_end) .. answers or ''
    local sum = text(n) .. ' ' .. text(first) .. ' ' .. text(last) .. watch .. from .. asked .. silent
    fields.queue = sum ~= got[7] and sum or nil
  else
    fields.queue = ''
    head, tail, silent, poll_at, poll_place, cursor = 1, 0, '', 0, 0, 0
    asked_until, asked_end, answers = 0, 0, ''
  end
end

-- unmark removes the mark that begins and ends there in silent. Earlier steps have skipped that
-- client's waiters, and a push may reach them now. So CURSOR and END go, because they are before it.
local function unmark(from, to)
  silent, cursor = string.sub(silent, 1, from - 1) .. string.sub(silent, to + 1), 0
  asked_until, asked_end, answers = 0, 0, ''
  set_queue(waiting, head, tail)
end

-- mark_silent notes that the client of an attempt is silent: it has not confirmed a push.
-- serve_queue skips its waiters until it sends a request. The record remembers at most 15
-- silent clients. A forgotten one costs the queue the time of one more push.
local function mark_silent(attempt)
  local client = ' ' .. string.match(attempt, '^[^/]*')
  doubt = true
  if waiting == 0 or string.find(silent .. ' ', client .. ' ', 1, true) then return end
  silent = silent .. client
  set_queue(waiting, head, tail)
  while select(2, string.gsub(silent, ' ', '')) > 15 do unmark(string.find(silent, '^ %S+')) end
end

-- clear_silent removes that note, because the client of the attempt has sent a request.
local function clear_silent(attempt)
  if silent == '' then return end
  local client = ' ' .. string.match(attempt, '^[^/]*') .. ' '
  local from, to = string.find(silent .. ' ', client, 1, true)
  if from then unmark(from, to - 1) end
end

local function words(value)
  local list = {}
  for word in string.gmatch(value, '%S+') do list[#list + 1] = word end
  return list
end

-- read_share reads the shared hold of an attempt: mode, expiry, weight, token, since and owner;
-- nil if it has none. mark is in front of the expiry: 0 if the hold is provisional, 00 if it is to end. value is
-- the field, if the step has read it already.
local function read_share(attempt, value)
  local field = 'h:' .. attempt
  value = value or read_field(field)
  if not value then return nil end
  local mode, mark, till, weight, token, since, rest = string.match(value,
    '^([sp]) (0?0?)([1-9]%d*) ([1-9]%d*) ([1-9]%d*) ([1-9]%d*)(.*)$')
  local owner = rest and string.match(rest, '^ (%S+)$')
  if not mode or mode ~= shared_mode or #till > 15 or #weight > 15 or tonumber(weight) > used or
    (mode == 's' and weight ~= '1') or tonumber(token) > fence or #since > 15 or (rest ~= '' and not owner) or
    #rest > 2048 or not string.find(attempt, '^[^%s/]+/%S+$') then
    refuse(field)
  end
  return {mode, tonumber(till), weight, token, since, owner, mark = mark}
end

-- attempt_at reads the attempt at a place of the queue.
local function attempt_at(place)
  local attempt = read_field('#' .. place)
  if attempt and not string.find(attempt, '^[^%s/]+/%S+$') then refuse('#' .. place) end
  return attempt
end

-- read_waiter reads an attempt that waits: place, mode, weight, ttl, expiry of the place, time of
-- joining, and owner; nil if it does not wait. value is the field, if the step has read it
-- already.
local function read_waiter(attempt, value)
  local field = 'w:' .. attempt
  value = value or read_field(field)
  if not value then return nil end
  local place, mode, weight, ttl, till, joined, rest = string.match(value,
    '^([1-9]%d*) ([xsp]) ([1-9]%d*) ([1-9]%d*) ([1-9]%d*) ([1-9]%d*)(.*)$')
  local owner = rest and string.match(rest, '^ (%S+)$')
  if not place or waiting == 0 or tonumber(place) < head or tonumber(place) > tail or #weight > 15 or #ttl > 14 or
    #till > 15 or #joined > 15 or (mode ~= 'p' and weight ~= '1') or (mode == 'p' and not limit) or
    (rest ~= '' and not owner) or #rest > 2048 or not string.find(attempt, '^[^%s/]+/%S+$') then
    refuse(field)
  end
  return {place, mode, weight, ttl, till, joined, owner}
end

-- only_waiter returns the only waiter as the end of the field lock, or nil. A mutex with one waiter is
-- the usual case of a lock that is waited for, and then a release reads one field and writes one. The
-- queue must have nothing else to say. Each step that writes the record gives it the form that fits what
-- it says, so it does not matter how a queue came about.
local function only_waiter()
  if waiting ~= 1 or tail ~= 1 or not holder or entries or watched or poll_at > 0 or asked_end > 0 or silent ~= '' then
    return nil
  end
  local attempt = attempt_at(1)
  local w = attempt and read_waiter(attempt)
  if not w or w[2] ~= 'x' or w[7] then return nil end
  local lease = ' 0' .. text(provisional_lease(tonumber(w[4])))
  return ' +1 ' .. w[5] .. ' ' .. w[6] .. ' ' .. w[4] .. lease .. ' ' .. attempt
end

-- settle decides what commit writes, and may still refuse the record.
local function settle()
  tell_watchers()
  inline = only_waiter()
end

-- commit ends the step and returns its answer. step is the function in which all of this
-- runs: if the record was deleted, the step begins anew without it.
local function commit(answer)
  settle()
  if not set_record_ttl() then return step() end
  write_fields()
  publish()
  return answer
end

-- read_words reads a field by one pattern or the other, and returns what that captures; nil if
-- there is no such field. A number has at most 16 digits.
local function read_words(field, pattern, other)
  local value = read_field(field)
  if not value then return nil end
  local list = {string.match(value, pattern)}
  if not list[1] and other then list = {string.match(value, other)} end
  if not list[1] or #value > 65536 then refuse(field) end
  for _, word in ipairs(list) do
    if string.find(word, '^%-?%d+$') and (#word > 16 or string.find(word, '^%-?0%d')) then refuse(field) end
  end
  return list
end

-- The forms of the fields leader and period, with and without the optional part.
local leader, leader_gone = '^([1-9]%d*) (%d+) (=%S*)$', '^([1-9]%d*) (%d+)$'
local period_run, period_due =
  '^(%-?%d+) ([^%s/]+/%S+) ([1-9]%d*) ([%-%d]%d*)$', '^(%-?%d+) (%-) ([1-9]%d*) ([%-%d]%d*)$'

-- server_run is the ID of the server's run, or empty if the user may not ask for it.
local function server_run()
  local info = redis.pcall('INFO', 'server')
  return type(info) == 'string' and string.match(info, 'run_id:(%w+)') or ''
end

-- A step of a sweep reads pages of the record until it has seen so many shared holders. It
-- reads at most so many pages, because most fields of a page may be those of waiters.
local sweep_window, sweep_page, sweep_pages = 256, 64, 32

-- sweep ends shared holds that have expired. A step looks at some of them, so its time does
-- not grow with their number, and the next step goes on where it ended. Until the sweep has
-- come to a hold, the hold counts. The sweep finds the true soonest: found is the earliest
-- expiry of the holds that it has seen, and of those that were granted since it began. A
-- cursor means nothing to another server, so after a failover the sweep begins again. If
-- the user may not ask for the server's run, holds may then remain until the next sweep.
local function sweep()
  if sweep_cursor ~= '0' and sweep_run ~= server_run() then sweep_cursor = '0' end
  local whole, kept, live, over, gone = sweep_cursor == '0', 0, 0, 0, {}
  if whole then found = nil end
  for _ = 1, sweep_pages do
    local page = call('HSCAN', key, sweep_cursor, 'MATCH', 'h:*', 'COUNT', sweep_page)
    sweep_cursor = page[1]
    for i = 1, #page[2], 2 do
      local field = page[2][i]
      local value = fields[field] or page[2][i + 1]
      if value == '' then
        fields[field] = ''
      else
        local h = read_share(string.sub(field, 3), value)
        if h[2] <= now then
          fields[field] = ''
          over = over + h[3]
          gone[#gone + 1] = {tonumber(h[4]), h[4], string.sub(field, 3), h.mark == '0'}
        else
          kept, live = kept + 1, live + h[3]
          found = math.min(found or h[2], h[2])
        end
      end
    end
    if sweep_cursor == '0' or #gone + kept >= sweep_window then break end
  end
  if sweep_cursor ~= '0' then
    if whole then sweep_run = server_run() end
    set_shares(used - over)
  elseif not whole and not found and sweep_run == '' then
    -- This may be another server than that of the cursor. So the next step begins again.
    set_shares(used - over)
  else
    soonest = found
    -- In one step it has counted the holders. Where a longer one has found none, there is none.
    set_shares(whole and live or found and used - over or 0)
  end
  table.sort(gone, function(a, b) return a[1] < b[1] end)
  for _, h in ipairs(gone) do
    note_lost(h[2])
    if h[4] then mark_silent(h[3]) end
  end
end

-- sweeping reports whether shared holds may have expired that no step has ended yet.
local function sweeping() return used > 0 and soonest <= now end

-- expire ends the exclusive hold if it has expired. soonest is a lower bound of the shared
-- holders' expiries. So the step looks for expired ones only if there may be one.
local function expire()
  if holder and expiry <= now then
    local previous = holder
    if provisional then
      for _, attempt in ipairs(words(entries or holder)) do mark_silent(attempt) end
    end
    end_exclusive()
    -- A kept lock was released before, so its holder has not lost it.
    if previous ~= '%kept' then note_lost(text(fence)) end
  end
  if sweeping() then sweep() end
  gap = gap or (before and before.till and not holder and used == 0 and waiting == 0)
end

-- compatible reports whether a hold of this mode and weight can be granted beside the
-- present holds.
local function compatible(mode, weight)
  if holder then return false end
  if used == 0 then return mode ~= 'p' or not limit or weight <= limit end
  if mode == 'x' or mode ~= shared_mode then return false end
  return mode == 's' or used + weight <= limit
end

-- grant adds a holder and returns its token. A pushed grant is provisional: its lease is
-- short until the client sends a request. A 0 in front of the lease, or of the expiry,
-- marks it. pushed is then when the waiter's place would have expired: the record lives until then
-- and for the retention of that waiter's client, so a lease that ends before needs no more. The
-- confirmation extends the record, as every renewal does.
local function grant(attempt, owner, mode, weight, ttl, pushed)
  fence = math.max(micros, (fence or 0) + 1)
  local token, lease = text(fence), pushed and provisional_lease(ttl) or ttl
  if not pushed or now + lease - pushed > 0 or fence > micros then extend_record(lease) end
  if mode == 'x' then
    holder, entries, expiry, provisional = owner or attempt, owner and attempt, now + lease, pushed and true
    if entries then fields.entries = entries end
    -- Only this lease needs the record. So this sets the TTL, as the fast path of
    -- acquire does.
    if waiting == 0 and not pushed then record_life, reset_life = ttl, true end
  else
    local till = (pushed and '0' or '') .. text(now + lease)
    local value = mode .. ' ' .. till .. ' ' .. text(weight) .. ' ' .. token .. ' ' .. text(now)
    fields['h:' .. attempt] = owner and (value .. ' ' .. owner) or value
    shared_mode = mode
    note_expiry(now + lease)
    set_shares(used + weight)
  end
  if not birth then
    birth = fence
    fields.birth = token
  end
  return token
end

-- leave_queue removes a waiter from the queue. If this waiter was the one that polls next,
-- serve_queue tells another.
local missed_poll_at = 0
local function leave_queue(attempt, place)
  fields['w:' .. attempt], fields['#' .. place] = '', ''
  if tonumber(place) == poll_place then missed_poll_at, poll_at, poll_place = poll_at, 0, 0 end
  set_queue(waiting - 1, head, tail)
end

-- stop_waiting removes an attempt from the queue if it waits.
local function stop_waiting(attempt)
  local waits = waiting > 0 and read_waiter(attempt)
  if waits then leave_queue(attempt, waits[1]) end
end

-- channel_of returns the push command and the channel for a waiter, or nil if no push can
-- reach it: its client does not subscribe on this server, or is silent, or the user may not
-- publish. Each step asks this before it writes. A push also goes to the replicas, and a
-- client that subscribes only there must not receive a grant that goes to the next waiter.
-- A waiter without pushes learns of its grant by a poll.
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

-- read_ahead reads the waiters at these places, and whether their clients subscribe. It
-- needs three calls for all of them.
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

-- each_waiter calls visit(attempt, place, waiter) for the waiters in order, until visit returns
-- true. It covers the places near HEAD. Then it goes on from CURSOR, past waiters that
-- earlier steps have skipped and that have not polled since. It returns the place at
-- which it ended.
local function each_waiter(visit)
  local place, known, ahead = head, head, 4
  local last = math.max(head + head_window, cursor) + cursor_window
  while waiting > 0 and place <= tail and place < last do
    if place > known then
      known = math.min(place + ahead - 1, tail)
      read_ahead(place, known)
      ahead = math.min(4 * ahead, head_window)
    end
    local attempt = attempt_at(place)
    if attempt then
      -- Each place that is taken has its waiter, and each waiter its place.
      local w = read_waiter(attempt)
      if not w or tonumber(w[1]) ~= place then refuse('#' .. place) end
      if visit(attempt, place, w) then break end
    end
    place = place + 1
    if place == head + head_window then place = math.max(place, cursor) end
  end
  return place
end

-- send adds a push to a waiter's client, to grants or to the other pushes. It returns false if no
-- push can reach the client.
local function send(attempt, what, list)
  local push = channel_of(attempt)
  if not push then return false end
  push[3] = what
  list = list or pushes
  list[#list + 1] = push
  return true
end

-- ask_to_poll asks a waiter to poll in so many ms. It returns false if no push can reach it.
local function ask_to_poll(attempt, left) return send(attempt, 'kept ' .. attempt .. ' ' .. text(left)) end

-- notify pushes a grant to a waiter. The queue still counts this waiter, hence the - 1.
local function notify(attempt, token, ttl)
  return send(attempt, 'granted ' .. attempt .. ' ' .. token .. ' ' .. text(waiting - 1) ..
    ' ' .. text(now) .. ' ' .. text(provisional_lease(ttl)), grants)
end

-- unanswered reports whether the waiter at this place was asked to poll, and has not done so.
local function unanswered(place)
  return place < asked_end and not string.find(answers .. ':', ':' .. text(place) .. ':', 1, true)
end

-- passed_over reports whether that waiter's time to answer is over.
local function passed_over(place) return asked_until <= now and unanswered(place) end

-- note_answer notes that the waiter at this place has polled. The record remembers at most 16 answers.
-- It forgets the last ones, and then those waiters are as if they had not been asked.
local function note_answer(place)
  if not unanswered(place) then return end
  answers = answers .. ':' .. text(place)
  local places, most = {}, 0
  for answer in string.gmatch(answers, '%d+') do
    places[#places + 1], most = tonumber(answer), math.max(most, tonumber(answer))
  end
  if #places <= 16 then return end
  asked_end, answers = most, ''
  for _, answer in ipairs(places) do
    if answer ~= most then answers = answers .. ':' .. text(answer) end
  end
end

-- grant_same_owner also grants the lock to the other waiters with the owner that has just
-- got it: they hold it together. It skips waiters that no push can reach, and those beyond
-- the two windows. The caller gets its answer without a push.
local function grant_same_owner(caller)
  each_waiter(function(attempt, place, w)
    if attempt ~= caller and w[7] == holder and tonumber(w[5]) > now and not passed_over(place) and
      notify(attempt, text(fence), tonumber(w[4])) then
      leave_queue(attempt, place)
      extend_record(tonumber(w[4]))
      entries = entries .. ' ' .. attempt
      fields.entries = entries
      expiry = math.max(expiry, now + provisional_lease(tonumber(w[4])))
    end
  end)
end

-- above_limit reports whether a waiter wants more permits than the limit, which was lowered
-- since. Such a waiter leaves the queue, because it would block the queue for ever.
-- If the limit is 0, waiters stay.
local function above_limit(w) return w[2] == 'p' and limit and limit > 0 and tonumber(w[3]) > limit end

-- serve_queue grants the lock to the first waiters, as long as they are compatible.
--  - It removes a waiter that has expired, or that wants more permits than the limit.
--  - It skips a waiter that no push can reach, compatible or not. That waiter keeps its
--    position until it expires.
--  - A waiter that is not compatible ends the walk, because nobody may overtake it.
--  - caller is the attempt whose request this is. It needs no push, and the step looks at
--    it although earlier steps have skipped it.
--  - After a pushed grant that nobody confirmed it pushes no grant, and asks instead: it tells all
--    waiters that it visits to poll within answer_time. The caller has answered. Until then nobody
--    overtakes a waiter that has not answered. After that, such a waiter is passed over until it
--    polls. So the queue waits once for all clients that are frozen.
-- It returns the caller's token if it was granted, and whether a newcomer must queue up.
--
-- For example, a writer releases, and in the queue are: R1 at place 4, R2 at 5, R3 at 6, the
-- writer W at 7, R4 at 8. R1 to R4 are readers, and R2's client has no subscription now. The walk
-- begins at HEAD, which is 4. R1 gets a push and a provisional grant. R2 is skipped and keeps
-- place 5. R3 may read beside R1, so it gets a grant too. W may not: it ends the walk, and R4 does
-- not overtake it. HEAD is now 5, the first place that is taken, and CURSOR is 7. R1 and R3 may
-- both have died after they subscribed. Then nobody would ask when their grants expire. So the step
-- asks R4, the last waiter, to poll at that time, and W as well if R4 has waited for long.
--
-- unfinished: the lock may be free, and there are waiters beyond the two windows. Then, and
-- while a sweep is under way, one waiter is asked to poll at once.
local unfinished, answer_time = false, 1500
local function serve_queue(caller)
  local mine, blocked, pushed, asked, answered = nil, false, false, nil, ''
  -- The clock may have been set back since.
  asked_until = math.min(asked_until, now + answer_time)
  local asks = doubt and asked_until <= now
  local own = caller and read_waiter(caller)
  if own then
    cursor = math.min(cursor, tonumber(own[1]))
    note_answer(tonumber(own[1]))
  end
  if own and above_limit(own) then
    leave_queue(caller, own[1])
    caller = nil
  end
  local reached = holder and head or each_waiter(function(attempt, place, w)
    local ttl = tonumber(w[4])
    if attempt ~= caller and tonumber(w[5]) <= now or above_limit(w) then
      leave_queue(attempt, place)
    elseif attempt ~= caller and passed_over(place) then
      return false
    elseif not compatible(w[2], tonumber(w[3])) then
      blocked = attempt == caller or channel_of(attempt) ~= nil
    elseif attempt == caller and asked then
      answered = ':' .. text(place)
    elseif attempt ~= caller and asks then
      if ask_to_poll(attempt, 1) then asked = math.max(asked or 0, math.min(ttl, answer_time)) end
    elseif attempt ~= caller and unanswered(place) then
      blocked = channel_of(attempt) ~= nil
    elseif attempt == caller or notify(attempt, text(math.max(micros, (fence or 0) + 1)), ttl) then
      leave_queue(attempt, place)
      if attempt ~= caller then pushed = attempt end
      local token = grant(attempt, w[7], w[2], tonumber(w[3]), ttl, attempt ~= caller and tonumber(w[5]))
      if attempt == caller then mine = token end
      if entries then grant_same_owner(caller) end
    end
    return blocked or holder
  end)
  if asked then asked_until, asked_end, answers, blocked = now + asked, reached, answered, true end
  unfinished = waiting > 0 and reached <= tail and not (holder or blocked)
  if waiting > 0 then
    cursor = math.max(cursor, reached)
    -- Move HEAD over empty places, but by less than a window. So no waiter that this
    -- walk has not reached comes into the window near HEAD.
    local first, stop = head, math.min(tail, head + head_window / 2)
    while first < stop and not read_field('#' .. first) do first = first + 1 end
    if asked_end <= first then asked_until, asked_end, answers = 0, 0, '' end
    set_queue(waiting, first, tail)
  end
  if (unfinished or (sweeping() and waiting > 0)) and (mine or not caller or not ask_to_poll(caller, 1)) then
    -- One of the last waiters: a waiter beyond the windows may be due.
    local from, at = math.max(reached, tail - tail_window + 1), tail
    if from <= tail then read_ahead(from, tail) end
    while at >= from and not (attempt_at(at) and ask_to_poll(attempt_at(at), 1)) do at = at - 1 end
  end
  -- A pushed grant may expire unconfirmed, and nobody else notices. So the step asks the last
  -- waiter to poll at that time. A waiter may be frozen since it joined, and then nobody polls. So if
  -- the last one has not joined just now, the others are asked, too. While the last one that was
  -- asked is in the queue, no other is. If it leaves, another is.
  local till = 0
  if pushed then
    till = holder and expiry or soonest
  elseif not mine and (holder or used > 0) then
    till = missed_poll_at
  end
  if till > now and waiting > 0 and not (poll_at > now and poll_place >= reached) then
    local unconfirmed = pushed or (provisional and words(entries or holder)[1]) or '/'
    local client, poller = string.match(unconfirmed, '^[^/]*/'), 0
    local function tell(place)
      local other = attempt_at(place)
      local told = other and string.sub(other, 1, #client) ~= client and
        (other == caller or ask_to_poll(other, till - now))
      if told then poll_at, poller = till, math.max(poller, place) end
      return told and other
    end
    local last = tell(tail)
    if not last or now - read_waiter(last)[6] > 1000 then
      local stop = math.min(tail, reached + head_window) - 1
      if stop >= reached then read_ahead(reached, stop) end
      for place = reached, stop do tell(place) end
    end
    if poller > 0 then poll_place = poller end
    set_queue(waiting, head, tail)
  end
  must_queue = blocked or unfinished or (waiting > 0 and holder ~= false)
  return mine, must_queue
end

-- ask_first_to_poll tells the first waiter that receives pushes that the lock is free
-- earlier. If that waiter leaves, serve_queue tells another.
local function ask_first_to_poll(left)
  each_waiter(function(next, place)
    if passed_over(place) or not ask_to_poll(next, left) then return false end
    poll_at, poll_place = now + left, place
    set_queue(waiting, head, tail)
    return true
  end)
end

-- ms_until_free is how long, in ms, the present holders may hold the lock, or waiters may still answer.
local function ms_until_free()
  local till = holder and expiry or (used > 0 and soonest) or math.max(now, asked_until)
  if not holder and asked_until > now then till = math.min(till, asked_until) end
  return text(math.max(till - now, 0))
end

-- is_entry reports whether the attempt is an entry of the named owner that holds.
local function is_entry(attempt)
  return entries and string.find(' ' .. entries .. ' ', ' ' .. attempt .. ' ', 1, true) ~= nil
end

-- holds reports whether the attempt is the exclusive holder, or an entry of it.
local function holds(attempt, owner)
  if owner then return holder == owner and is_entry(attempt) end
  return holder == attempt and not entries
end

-- expired_for_all reports whether a hold with several entries has expired. It is then lost
-- for the other entries too, and this ends it and serves the queue.
local function expired_for_all()
  if not entries or expiry > now or not string.find(entries, ' ', 1, true) then return false end
  expire()
  serve_queue()
  return true
end

-- remove_entry ends the exclusive hold, or one entry of it. It returns the number of entries
-- that remain.
local function remove_entry(attempt)
  local rest = {}
  for _, entry in ipairs(words(entries or '')) do
    if entry ~= attempt then rest[#rest + 1] = entry end
  end
  if #rest == 0 then
    end_exclusive()
  else
    extend_record(0)
    entries = table.concat(rest, ' ')
    fields.entries = entries
  end
  return #rest
end

-- live_share reads the shared hold of an attempt. If it has expired, and no sweep has come to
-- it yet, this ends it.
local function live_share(attempt)
  local h = read_share(attempt)
  if not h or h[2] > now then return h end
  fields['h:' .. attempt] = ''
  set_shares(used - h[3])
  note_lost(h[4])
end

-- is_ending reports whether the attempt has a hold that is to end.
local function is_ending(attempt, owner)
  if ending and holds(attempt, owner) then return true end
  local h = read_share(attempt)
  return h ~= nil and h.mark == '00'
end

-- reacquire returns the token of a hold that the attempt has already, because its request
-- came twice. If enters is set, the attempt may also become one more entry of the named
-- owner that holds; it then leaves the queue. The lease counts from now. A hold that is to end is not prolonged.
local function reacquire(attempt, owner, ttl, enters)
  if holder and not ending and (holds(attempt, owner) or (enters and owner and entries and holder == owner)) then
    extend_record(ttl)
    if owner and not is_entry(attempt) then
      entries = entries .. ' ' .. attempt
      fields.entries = entries
      stop_waiting(attempt)
    end
    expiry, provisional = math.max(expiry, now + ttl), false
    return text(fence)
  end
  local h = live_share(attempt)
  if not h or h.mark == '00' then return nil end
  h[2] = text(math.max(h[2], now + ttl))
  extend_record(ttl)
  fields['h:' .. attempt] = table.concat(h, ' ')
  return h[4]
end

-- keep_waiting extends the time for which a waiter keeps its position. It returns the answer.
local function keep_waiting(attempt, w, waiter_ttl)
  w[5] = text(now + waiter_ttl)
  extend_record(waiter_ttl)
  fields['w:' .. attempt] = table.concat(w, ' ')
  return 'queued ' .. text(w[1] - head + 1) .. ' ' .. ms_until_free() .. ' ' .. text(now)
end

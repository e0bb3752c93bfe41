#!lua flags=allow-oom
-- release — give up a hold, or one entry of it; if the lock is free, grant the next waiter.
--
-- KEYS   1 key             the lock's record
-- ARGV   1 attempt         the acquisition that ends
-- ARGV   2 token           the token of its grant
-- ARGV   3 retention       ms for which the record outlives its last lease
-- ARGV   4 channel_prefix  prefix of the push channels
-- ARGV   5 owner           as in acquire
--
-- ANSWER released        the hold has ended, by this request or by an earlier copy of it
-- ANSWER held <entries>  this entry has ended; the owner has others
-- ANSWER gone            the hold had ended before: it expired, was evicted, or the record was lost
-- ERROR  FORMAT          the record has a later format, or no version wrote it
--
-- HOLDS  I3 I4 I5 I7. The same step grants the next waiter.
-- REPEATS yes: a copy finds the hold ended; the token says whether it was released.
-- WHY    The record remembers lost holds and not released ones. Losses are rare, so it costs
--        nothing to tell a repeated release from a lost hold. If a hold has expired and
--        nobody took the lock since, it is still in the record. Its release answers
--        released, because nobody else held the lock in between.

local key, attempt, token, retention = KEYS[1], ARGV[1], ARGV[2], ARGV[3]
local channel_prefix, owner = ARGV[4], ARGV[5]

-- clock_token is the server's time as a token: microseconds. All but the last three digits are ms.
local function clock_token()
  local clock = redis.call('TIME')
  return clock[1] .. string.sub('00000' .. clock[2], -6)
end

-- reaches reports whether a push can reach the channel. It is asked before any write, see channel_of in
-- record.lua.
local function reaches(count, verb, channel)
  local there = redis.pcall('PUBSUB', count, channel)
  local check, known, may = redis.acl_check_cmd, true, true
  if check then known, may = pcall(check, verb, channel, '') end
  return known and may and not there.err and there[2] > 0
end

-- The fast paths. Each leaves the record as the slow path would. What does not have the form of
-- what they read is for the slow path, which refuses it if no version wrote it.
if not owner then
  local call = redis.call
  local lock = call('HGET', key, 'lock')
  -- fence: sixteen digits, and below most_token in record.lua. rest: where the attempt begins,
  -- after the lease.
  local fence, rest = string.match(lock or '', '^([1-8]%d+) %-?%d+ ()')
  if not fence or #fence ~= 16 or rest > 36 then lock = nil end
  if lock and string.sub(lock, rest) == attempt then
    -- An exclusive hold without waiters.
    call('HSET', key, 'lock', fence)
    return 'released'
  elseif lock and string.find(lock, attempt .. ' +1 ', rest, true) == rest then
    -- An exclusive hold with one waiter, which is a part of the field lock: the new token, and behind
    -- it what there is of the waiter from its provisional lease on.
    local till, hold, lease, client = string.match(lock, '^([1-9]%d*) [1-9]%d* [1-9]%d*( 0([1-9]%d*) ([^/%s]+)/%S+)$',
      rest + #attempt + 4)
    local token = clock_token()
    local now = string.sub(token, 1, -4)
    if till and #till <= 15 and #lease <= 14 and till - now > 0 and token - fence > 0 then
      local count, verb = 'NUMSUB', 'PUBLISH'
      if string.find(channel_prefix, '{', 1, true) then count, verb = 'SHARDNUMSUB', 'SPUBLISH' end
      local channel = channel_prefix .. client
      if reaches(count, verb, channel) then
        -- The record lives until the waiter's place expires, and its retention: see grant in record.lua.
        if now + lease - till > 0 then call('PEXPIRE', key, string.format('%d', lease + retention), 'GT') end
        if call('HSET', key, 'lock', token .. hold) == 0 then
          redis.pcall(verb, channel,
            'granted ' .. string.sub(hold, #lease + 4) .. ' ' .. token .. ' 0 ' .. now .. ' ' .. lease)
          return 'released'
        end
        -- PEXPIRE has deleted the record, see set_record_ttl in record.lua.
        call('HDEL', key, 'lock')
      end
    end
  elseif lock and #lock == 22 and string.sub(lock, 17) == ' 0 - +' then
    -- A shared hold or permits, without waiters. If there are other holds, the step asks
    -- whether one of them has expired.
    local got = call('HMGET', key, 'shares', 'queue', 'h:' .. attempt)
    local kind, weight = string.match(got[3] or '', '^([sp]) 0?[1-9]%d* ([1-9]%d*) [1-9]%d* [1-9]%d*')
    local used, shared_mode, soonest = string.match(got[1] or '', '^([1-9]%d*) ([sp]) ([1-9]%d*)$')
    if kind and kind == shared_mode and (got[2] or '') == '' and #used <= 15 and #soonest <= 15 and
      tonumber(weight) <= tonumber(used) then
      -- One HSET is the whole change, as in commit. It makes fields that go empty.
      local rest = used - weight
      if rest == 0 then
        call('HSET', key, 'lock', fence, 'h:' .. attempt, '', 'shares', '')
        redis.pcall('HDEL', key, 'h:' .. attempt, 'shares')
        return 'released'
      end
      if tonumber(soonest) > tonumber(string.sub(clock_token(), 1, -4)) then
        call('HSET', key, 'h:' .. attempt, '',
          'shares', string.format('%d', rest) .. ' ' .. shared_mode .. ' ' .. soonest)
        redis.pcall('HDEL', key, 'h:' .. attempt)
        return 'released'
      end
    end
  elseif lock and string.sub(lock, rest) == attempt .. ' +' then
    -- An exclusive hold with waiters, the first of which wants an exclusive hold and receives
    -- pushes. The slow path serves every other queue.
    local queue = call('HGET', key, 'queue')
    local waiting, head, tail, watch = string.match(queue or '', '^([1-9]%d*) ([1-9]%d*) ([1-9]%d*)(.*)$')
    local poll_at, poll_place = '', ''
    if watch and watch ~= '' then poll_at, poll_place = string.match(watch, '^ ~([1-9]%d*):([1-9]%d*)$') end
    -- The loop below counts places, and counts with more digits do not grow.
    local known = poll_at and waiting and #head <= 15 and #tail <= 15 and #poll_at <= 15 and #poll_place <= 15 and
      tonumber(waiting) <= tail - head + 1
    local next_attempt = known and call('HGET', key, '#' .. head)
    local place, ttl, waiter_expiry
    if next_attempt and string.find(next_attempt, '^[^/%s]+/%S+$') then
      place, ttl, waiter_expiry = string.match(call('HGET', key, 'w:' .. next_attempt) or '',
        '^(%d+) x 1 ([1-9]%d*) ([1-9]%d*) [1-9]%d*$')
    end
    if place and place == head and #ttl <= 14 and #waiter_expiry <= 15 then
      local token = clock_token()
      local now = string.sub(token, 1, -4)
      if tonumber(waiter_expiry) > tonumber(now) and tonumber(token) > tonumber(fence) then
        waiting = string.format('%d', waiting - 1)
        local place, following = head, nil
        while waiting ~= '0' and (following or '') == '' and place - head < 32 do
          place = string.format('%d', place + 1)
          following = call('HGET', key, '#' .. place)
        end
        -- A waiter must poll when this grant may expire unconfirmed, see serve_queue. The
        -- waiter that gets the lock polls no more.
        local client = string.match(next_attempt, '^[^/]*/')
        watch = ''
        if poll_place == head then poll_at = '' end
        if poll_at ~= '' then watch = ' ~' .. poll_at .. ':' .. poll_place end
        local poller_told = following and not (poll_at ~= '' and tonumber(poll_at) > tonumber(now) and
          tonumber(poll_place) >= tonumber(place))
        if poller_told and place ~= tail then
          -- If the last waiter has not joined just now, the slow path tells more waiters.
          following = call('HGET', key, '#' .. tail) or ''
          local joined = string.match(call('HGET', key, 'w:' .. following) or '',
            '^' .. tail .. ' %l %d+ %d+ %d+ ([1-9]%d*)')
          local alive = joined and #joined <= 15 and now - joined <= 1000
          if not alive or string.sub(following, 1, #client) == client then following = '' end
        end
        poll_place, poller_told = tail, poller_told and string.sub(following, 1, #client) ~= client
        local count, verb = 'NUMSUB', 'PUBLISH'
        if string.find(channel_prefix, '{', 1, true) then count, verb = 'SHARDNUMSUB', 'SPUBLISH' end
        local channel = channel_prefix .. string.match(next_attempt, '^[^/]*')
        local found = waiting == '0' or (following or '') ~= ''
        local other = poller_told and found and channel_prefix .. string.match(following, '^[^/]*')
        if other then
          local there = redis.pcall('PUBSUB', count, other)
          poller_told = not there.err and there[2] > 0
          found = poller_told or place == tail
        end
        if found and reaches(count, verb, channel) then
          -- The TTL, the change, the tidying up, and then the pushes: see commit.
          local lease = string.format('%d', math.min(ttl, math.max(2000, math.min(3000, math.floor(ttl / 10)))))
          lock = token .. ' 0' .. lease .. ' ' .. next_attempt
          if poller_told then watch = ' ~' .. string.format('%d', now + lease) .. ':' .. poll_place end
          -- The record lives until the waiter's place expires, and its retention: see grant in record.lua.
          if now + lease > tonumber(waiter_expiry) then
            call('PEXPIRE', key, string.format('%d', lease + retention), 'GT')
          end
          local new
          if waiting == '0' then
            new = call('HSET', key, 'lock', lock, '#' .. head, '', 'w:' .. next_attempt, '', 'queue', '')
            redis.pcall('HDEL', key, '#' .. head, 'w:' .. next_attempt, 'queue')
          else
            new = call('HSET', key, 'lock', lock .. ' +', '#' .. head, '', 'w:' .. next_attempt, '',
              'queue', waiting .. ' ' .. place .. ' ' .. tail .. watch)
            redis.pcall('HDEL', key, '#' .. head, 'w:' .. next_attempt)
          end
          if new == 0 then
            -- The grant comes last: see publish in record.lua.
            if poller_told then redis.pcall(verb, other, 'kept ' .. following .. ' ' .. lease) end
            redis.pcall(verb, channel,
              'granted ' .. next_attempt .. ' ' .. token .. ' ' .. waiting .. ' ' .. now .. ' ' .. lease)
            return 'released'
          end
          -- PEXPIRE has deleted the record, see set_record_ttl in record.lua.
          call('HDEL', key, 'lock', 'queue')
        end
      end
    end
  end
end

--include record

retention = tonumber(retention)
if holds(attempt, owner) then
  if expired_for_all() then return commit('gone') end
  local rest = remove_entry(attempt)
  if rest > 0 then return commit('held ' .. rest) end
else
  local share = read_share(attempt)
  if not share then
    if owner and entries and holder == owner and text(fence) == token then return 'held ' .. #words(entries) end
    return was_released(token) and 'released' or 'gone'
  end
  fields['h:' .. attempt] = ''
  set_shares(used - share[3])
end
expire()
serve_queue()
return commit('released')

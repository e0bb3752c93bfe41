#!lua flags=allow-oom
-- check — say for which of several tokens there is a live hold, changing nothing.
--
-- KEYS   n key    the records, one for each token; a record may come more than once
-- ARGV   n token  for each key, in order, from argument 1 on
--
-- ANSWER live                     one line for each key, in order: a live hold has the token
-- LINE   unknown                  an exclusive hold has it that may have been handed over inside its process
-- LINE   held <token> <holder>    none has it, and others hold the lock, the last with this token; holder is -
--                                 unless exclusive
-- LINE   free                     nobody holds the lock
-- LINE   -                        the key holds no record of this format, or more shared holders than a step reads
-- ERROR  FORMAT                   never: such a record is answered -
--
-- HOLDS  I4 I11. Writes nothing. A provisional hold is live: only a client that heard of the grant knows its
--        token. So is one whose end an operator has asked for, until it is released. A lock that was
--        released, and is kept, is held under the owner %kept.
-- REPEATS yes: it changes nothing.
-- WHY    It is not declared as one that writes nothing. So a replica refuses it, which does not know what the
--        primary has granted since. One step serves many tokens of many callers.

-- How many shared holds the step has read, of all keys, and how many pages it may still read.
local seen, pages = 0, nil
-- What it has read of the shared holds of each key. A key that comes again is not read again.
local shares_of = {}

local function step()
  local instant, retention, channel_prefix = redis.call('TIME'), 0, ''

  local function judge(key, token)
--include record
    if holder and expiry > now then
      -- The client numbers the leases of such a hold, unless there is a = behind the number of its attempt.
      if token == fence and holder ~= '%kept' then
        return (entries or string.find(holder, '/.*=')) and 'live' or 'unknown'
      end
      return 'held ' .. text(fence) .. ' ' .. holder
    end
    local shares = shares_of[key] or { at = '0', more = used > 0, live = {}, last = 0 }
    shares_of[key], pages = shares, pages or sweep_pages
    while shares.more and not shares.live[token] and pages > 0 and seen < sweep_window do
      pages = pages - 1
      local page = call('HSCAN', key, shares.at, 'MATCH', 'h:*', 'COUNT', sweep_page)
      for i = 1, #page[2], 2 do
        -- An empty field counts as absent, see commit.
        local h = page[2][i + 1] ~= '' and read_share(string.sub(page[2][i], 3), page[2][i + 1])
        seen = seen + 1
        if h and h[2] > now then
          local its = tonumber(h[4])
          shares.live[its], shares.last = true, math.max(shares.last, its)
        end
      end
      -- Not before: after a damaged field, the page is read again.
      shares.at, shares.more = page[1], page[1] ~= '0'
    end
    if shares.live[token] then return 'live' end
    if shares.more then return '-' end
    return shares.last > 0 and 'held ' .. text(shares.last) .. ' -' or 'free'
--include ends
  end

  local each = {}
  for i, key in ipairs(KEYS) do
    local done, answer = pcall(judge, key, tonumber(ARGV[i]))
    each[i] = done and type(answer) == 'string' and answer or '-'
  end
  return table.concat(each, '\n')
end

return step()

#!lua flags=no-writes
-- inspect — read one lock, changing nothing.
--
-- KEYS   1 key   the lock's record
-- ARGV   1 mode  optional: h if the caller asks for holders only, p if it counts permits. Then the answer
--                has no waiters, but <waiting>. A store over several servers refuses p, because each of
--                them counts its own permits
-- ARGV   2 from  optional: the <next> of an earlier answer, to go on from there
--
-- ANSWER absent                                                          there is no record
-- ANSWER lock <now> <fence> <waiting> <record-ttl> <used> <limit>        first line; limit 0: none, -: it is 0
-- LINE   holder <mode> <attempt> <owner> <weight> <token> <since> <left> <entries>   a live hold; ending follows if an
--        operator has asked for its end
-- LINE   waiter <position> <mode> <attempt> <owner> <weight> <joined> <left>         in order; left: ms to its expiry
-- LINE   page <next> <run>                                               the answer is a page of a larger record
-- LINE   leader <value>                                                  the holder has proclaimed this
-- LINE   period <next> <attempt> <period> <offset>                       of a periodic job: see begin_run
-- LINE   tries <runs> <tries>                                            so many runs of the period had no success yet
-- LINE   evicted <when> <by> <reason> <attempt…>                         the last eviction
-- ERROR  FORMAT  the record has a later format, or no version wrote it
--
-- HOLDS  I11. Writes nothing. Times are ms of the server's clock; left is relative; - stands for
--        no owner. A page shows some of the shared holders and waiters, and all else. Its <used>
--        counts what it shows, and <position> is the waiter's place. The pages up to the <next> 0
--        show each holder and waiter that was there all the time, and some of them twice. <next>
--        means nothing to a server with another <run>; - stands for an unknown one.
-- REPEATS yes: it changes nothing.
-- WHY    One step shows up to about 256 holders and waiters, of the same moment. With all of
--        them, it would keep the server busy for as long as there are many.

local key, mode, from, retention, channel_prefix = KEYS[1], ARGV[1], ARGV[2], 0, ''

--include record

if not fence then return 'absent' end
local lines = {}
local function add(...) lines[#lines + 1] = table.concat({...}, ' ') end
local live, shared, queue, seen, next_cursor = 0, {}, {}, 0, from or '0'
-- Without shared holders, and if nobody asks for the waiters, no page has anything to show.
local pages = sweep_pages
if (mode == 'p' or mode == 'h') and used == 0 then pages, next_cursor = 0, '0' end
for _ = 1, pages do
  local page = call('HSCAN', key, next_cursor, 'COUNT', sweep_page)
  next_cursor = page[1]
  for i = 1, #page[2], 2 do
    local kind, attempt, value = string.sub(page[2][i], 1, 2), string.sub(page[2][i], 3), page[2][i + 1]
    if value == '' then
      -- An empty field counts as absent, see commit.
    elseif kind == 'h:' then
      seen = seen + 1
      local h = read_share(attempt, value)
      if h[2] > now then
        live = live + h[3]
        shared[#shared + 1] = {tonumber(h[4]), attempt, h}
      end
    elseif kind == 'w:' and mode ~= 'p' and mode ~= 'h' then
      seen = seen + 1
      local w = read_waiter(attempt, value)
      queue[#queue + 1] = {tonumber(w[1]), attempt, w}
    end
  end
  if next_cursor == '0' or seen >= sweep_window then break end
end
-- A waiter in the field lock is on every page: it may have been elsewhere when the first was read.
if alone and mode ~= 'p' and mode ~= 'h' then queue[#queue + 1] = {1, alone, read_waiter(alone)} end
local paged = from or next_cursor ~= '0'
local function order(a, b) return a[1] < b[1] end
table.sort(shared, order)
table.sort(queue, order)

add('lock', text(now), text(fence), text(waiting), text(call('PTTL', key)), text(live), limit == 0 and '-' or text(limit or 0))
if holder and expiry > now then
  local list = words(entries or holder)
  add('holder', 'x', list[1], entries and holder or '-', '1', text(fence),
    text(math.min(now, math.floor(fence / 1000))), text(expiry - now), text(#list) .. (ending and ' ending' or ''))
end
for _, s in ipairs(shared) do
  local h = s[3]
  add('holder', h[1], s[2], h[6] or '-', h[3], h[4], h[5], text(h[2] - now), h.mark == '00' and '1 ending' or '1')
end
for i, q in ipairs(queue) do
  local w = q[3]
  add('waiter', paged and w[1] or text(i), w[2], q[2], w[7] or '-', w[3], w[6], text(math.max(w[5] - now, 0)))
end
-- A holder under an owner's name does not lead.
local said = holder and not entries and expiry > now and read_words('leader', leader, leader_gone)
if said and said[3] and said[1] == text(fence) then add('leader', said[3]) end
local period = read_words('period', period_run, period_due)
if period then add('period', table.concat(period, ' ')) end
local tried = read_words('tries', '^(%d+) ([1-9]%d*)$')
if tried then add('tries', table.concat(tried, ' ')) end
local evicted = read_words('evicted', '^([1-9]%d*) (%S+ %S.*)$')
if evicted then
  if string.find(evicted[2] .. ' ', '%s%s') or string.find(evicted[2], '[^%S ]') then refuse('evicted') end
  add('evicted', evicted[1], evicted[2])
end
if paged then
  local run = server_run()
  add('page', next_cursor, run ~= '' and run or '-')
end
return table.concat(lines, '\n')

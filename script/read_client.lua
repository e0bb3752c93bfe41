#!lua flags=no-writes
-- read_client — read what clients have said of themselves.
--
-- KEYS   n key     the clients' own records
-- ARGV   n fields  the notes that the caller wants: of one client, each argument is a field; of several, the
--                  fields for each key, in order, separated by spaces
--
-- ANSWER client <app> <host> <pid> <version> <started>
-- ANSWER unknown                it has not registered, or its record has expired
-- LINE   noted                  the client has written notes: ask for those on an attempt by their fields
-- LINE   note <field> <value>   of each note that was asked for and exists, in order
--
-- HOLDS  Several clients are answered one after the other, in order; each begins with the line client
--        or unknown. A key that holds something else is answered unknown. Writes nothing. I11: it reads no
--        more notes than the caller names.
-- REPEATS yes: it changes nothing.
-- WHY    A lock's record names attempts. People look for the program that made them.

local call, lines = redis.pcall, {}
for i, key in ipairs(KEYS) do
  local asked = #KEYS == 1 and table.concat(ARGV, ' ') or ARGV[i] or ''
  local got = call('HMGET', key, 'app', 'host', 'pid', 'version', 'started', 'noted')
  if got.err or not (got[1] and got[2] and got[3] and got[4] and got[5]) then
    lines[#lines + 1] = 'unknown'
  else
    lines[#lines + 1] = 'client ' .. table.concat(got, ' ', 1, 5)
    if got[6] then lines[#lines + 1] = 'noted' end
    for field in string.gmatch(asked, '%S+') do
      local value = call('HGET', key, field)
      if value and value ~= '' then lines[#lines + 1] = 'note ' .. field .. ' ' .. value end
    end
  end
end
return table.concat(lines, '\n')

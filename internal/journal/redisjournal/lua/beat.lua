#!lua flags=allow-oom
-- An edge's runs of one partition get a new deadline (journal.Ledger.Renew), or
-- with leave none. Answers 1 for each run that is still the edge's, else 0.
-- KEYS: due, then the runs' metas. ARGV: head, boot, then for each run its
-- fence, its id and its name among the due.
local call, pack, unpack, sub = redis.call, struct.pack, struct.unpack, string.sub
local shift, leave = unpack('>I6B', ARGV[1])
local boot = ARGV[2]
local mark = pack('>I2', #boot) .. boot
local time = call('TIME')
local untl = leave == 1 and 0 or time[1] * 1000 + math.floor(time[2] / 1000) + shift + 10000
local ok = {}
for i = 2, #KEYS do
  local fence, run, member = ARGV[3 * i - 3], ARGV[3 * i - 2], ARGV[3 * i - 1]
  local r = call('HGET', KEYS[i], 'r' .. run)
  ok[i - 1] = '0'
  if r and sub(r, 22, 21 + #mark) == mark and (leave == 1 or sub(r, 1, 8) == fence and string.byte(r, 21) == 0) then
    ok[i - 1] = '1'
    call('HSET', KEYS[i], 'r' .. run, sub(r, 1, 8) .. pack('>I6', untl) .. sub(r, 15))
    local due = unpack('>I6', r, 15)
    call('ZADD', KEYS[1], string.format('%.0f', due ~= 0 and due < untl and due or untl), member)
  end
end
return table.concat(ok)

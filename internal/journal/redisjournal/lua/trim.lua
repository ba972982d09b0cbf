#!lua flags=allow-oom
-- The floor moves up, or only the end of the thread's rest:
-- journal.Ledger.Trim.
-- KEYS: meta, stream, base, pages, idle, segments by id, segments of the
-- thread. ARGV: head, base, name, then pages.
local spill, call, pack, unpack, sub = unpack, redis.call, struct.pack, struct.unpack, string.sub
local epoch, pos, tag, page, schema, rest, archived = unpack('>c8I6c8I4c2I6I4', ARGV[1])
local name, npages = ARGV[3], #ARGV - 3
local m = call('HMGET', KEYS[1], 'h', 'c', 'd')
local h, c = m[1], m[2]
if not h or m[3] or sub(c, 1, 8) ~= epoch then return 'N' end
if sub(c, 49, 50) ~= schema and unpack('>I2', c, 49) > unpack('>I2', schema) then
  return 'V' .. sub(c, 49, 50)
end
local top, all = unpack('>I6', h), unpack('>I6', h, 27)
local pages, live = unpack('>I4', c, 45), unpack('>I4', c, 51)
local floor = unpack('>I6', c, 25)
if pos < floor or pos > top or page ~= pages then return 'N' end
local rests = pos == top and live == 0 and rest > 0
if pos == floor then
  if not rests or npages > 0 or sub(c, 31, 38) ~= tag then return 'N' end
  call('ZADD', KEYS[5], string.format('%.0f', rest), name)
  return 'O'
end
local id = string.format('%.0f-0', pos)
local found = call('XRANGE', KEYS[2], id, id)[1]
if not found then return redis.error_reply('ERR the thread lacks a record') end
local numbers = found[2][1]
if sub(numbers, 31, 38) ~= tag then return 'N' end

call('SET', KEYS[3], ARGV[2])
for i = 1, npages do call('HSET', KEYS[4], string.format('%.0f', page + i - 1), ARGV[3 + i]) end
-- What archives have, from the newest page down to what went before.
for last = archived - 1, 0, -1000 do
  local gone = {}
  for i = last, math.max(0, last - 999), -1 do gone[#gone + 1] = string.format('%.0f', i) end
  if call('HDEL', KEYS[4], spill(gone)) == 0 then break end
end
call('HSET', KEYS[1], 'c', sub(c, 1, 24) .. pack('>I6', pos) .. tag .. sub(numbers, 25, 30) .. pack('>I4', pages + npages) .. schema .. sub(c, 51))
call('HDEL', KEYS[1], 'o')
if pos < top then
  call('XTRIM', KEYS[2], 'MINID', string.format('%.0f-0', pos + 1))
  return 'O'
end
call('UNLINK', KEYS[2]) -- an empty stream would still cost
if rests then
  call('ZADD', KEYS[5], string.format('%.0f', rest), name)
else
  call('ZREM', KEYS[5], name)
end
if live == 0 then
  local segs = call('LRANGE', KEYS[7], 0, -1)
  for i = 1, #segs, 1000 do call('HDEL', KEYS[6], spill(segs, i, math.min(i + 999, #segs))) end
  call('UNLINK', KEYS[7])
end
return 'O'

#!lua flags=allow-oom
-- A tombstone: journal.Ledger.Delete. The commands stay, since one that is
-- tried again must not make the thread anew.
-- KEYS: meta, stream, base, pages, nodes, due, idle, segments by id, segments
-- of the thread. ARGV: head, name, channel.
local spill, call, pack, unpack, sub = unpack, redis.call, struct.pack, struct.unpack, string.sub
local epoch, shift, publish, tombstone, schema = unpack('>c8I6BI6c2', ARGV[1])
local name = ARGV[2]
local m = call('HMGET', KEYS[1], 'h', 'c', 'd')
local c = m[2]
if not m[1] or m[3] then return 'O' end
if sub(c, 1, 8) ~= epoch then return 'N' end
if sub(c, 49, 50) ~= schema and unpack('>I2', c, 49) > unpack('>I2', schema) then
  return 'V' .. sub(c, 49, 50)
end
local time = call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000) + shift
local gone, undue = { 'o' }, { name }
local fields = call('HKEYS', KEYS[1])
for i = 1, #fields do
  local kind = sub(fields[i], 1, 1)
  if kind == 'r' or kind == 'w' then gone[#gone + 1] = fields[i] end
  if kind == 'r' then undue[#undue + 1] = name .. ' ' .. sub(fields[i], 2) end
end
for i = 1, #gone, 1000 do call('HDEL', KEYS[1], spill(gone, i, math.min(i + 999, #gone))) end
for i = 1, #undue, 1000 do call('ZREM', KEYS[6], spill(undue, i, math.min(i + 999, #undue))) end
call('ZREM', KEYS[7], name)
local segs = call('LRANGE', KEYS[9], 0, -1)
for i = 1, #segs, 1000 do call('HDEL', KEYS[8], spill(segs, i, math.min(i + 999, #segs))) end
call('UNLINK', KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[9])
call('HSET', KEYS[1], 'd', string.format('%.0f', now + tombstone))
call('PEXPIRE', KEYS[1], string.format('%.0f', tombstone))
call(publish % 2 == 1 and 'SPUBLISH' or 'PUBLISH', ARGV[3], '\4' .. sub(c, 1, 24) .. pack('>I6I4', 0, 0))
return 'O'

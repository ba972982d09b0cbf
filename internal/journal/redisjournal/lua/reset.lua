#!lua
-- A new epoch, because the store was proved to have lost records:
-- journal.Ledger.Reset. KEYS: meta, stream, base, idle. ARGV: head, base, name,
-- channel.
local call, pack, unpack, sub = redis.call, struct.pack, struct.unpack, string.sub
local seen, seenPos, seenTag, epoch, tag, pos, log, baseTag, publish, schema = unpack('>c8I6c8c8c8I6I6c8Bc2', ARGV[1])
local m = call('HMGET', KEYS[1], 'h', 'c', 'd')
local h, c = m[1], m[2]
if not h or m[3] then return 'N' end
if sub(c, 1, 8) == epoch then return 'O' end
local has, _, last = unpack('>I6I6I6', h)
if sub(c, 1, 8) ~= seen or has ~= seenPos or sub(h, 19, 26) ~= seenTag or pos <= has then return 'N' end
if sub(c, 49, 50) ~= schema and unpack('>I2', c, 49) > unpack('>I2', schema) then
  return 'V' .. sub(c, 49, 50)
end
local rev = pack('>I8', unpack('>I8', c, 9) + 1) .. tag
local sum = sub(h, 27, 32)
call('SET', KEYS[3], ARGV[2])
call('UNLINK', KEYS[2])
call('HSET', KEYS[1], 'h', pack('>I6I6I6', pos, log, last) .. baseTag .. sum,
  'c', epoch .. rev .. pack('>I6', pos) .. baseTag .. sum .. sub(c, 45, 48) .. schema .. sub(c, 51))
call('HDEL', KEYS[1], 'o')
call('ZREM', KEYS[4], ARGV[3])
call(publish % 2 == 1 and 'SPUBLISH' or 'PUBLISH', ARGV[4], '\2' .. epoch .. rev .. pack('>I6I4', 0, 0))
return 'O'

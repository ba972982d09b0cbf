#!lua
-- A run goes to a new owner: journal.Ledger.Claim.
-- KEYS: meta, due. ARGV: head, run, owner, name, channel.
local call, pack, unpack, sub = redis.call, struct.pack, struct.unpack, string.sub
local fence, tag, living, shift, publish, schema = unpack('>I8c8BI6Bc2', ARGV[1])
local run, owner = ARGV[2], ARGV[3]
local m = call('HMGET', KEYS[1], 'c', 'd', 'r' .. run, 'w' .. run)
local c, r = m[1], m[3]
if not c or m[2] or not r then return 'N' end
local has, untl, due, sealed, size = unpack('>I8I6I6BI2', r)
local holder, agent = sub(r, 24, 23 + size), sub(r, 24 + size)
if has == fence + 1 and holder == owner and sub(c, 17, 24) == tag then
  return 'O' .. pack('>I8', has) .. sub(c, 9, 24)
end
local time = call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000) + shift
local isDue = due ~= 0 and due <= now
local lapsed = holder ~= '' and untl <= now
if has ~= fence or not (lapsed or isDue or living == 1) then return 'N' end
if sub(c, 49, 50) ~= schema and unpack('>I2', c, 49) > unpack('>I2', schema) then
  return 'V' .. sub(c, 49, 50)
end
untl = owner ~= '' and now + 10000 or 0
if isDue then due = now + 2000 end
local rev = pack('>I8', unpack('>I8', c, 9) + 1) .. tag
local seq = sub(m[4], 15, 20)
call('HSET', KEYS[1], 'c', sub(c, 1, 8) .. rev .. sub(c, 25),
  'r' .. run, pack('>I8I6I6BI2', has + 1, untl, due, sealed, #owner) .. owner .. agent,
  'w' .. run, string.rep('\0', 14) .. seq)
local member, when = ARGV[4] .. ' ' .. run, due
if owner ~= '' and (when == 0 or untl < when) then when = untl end
if owner ~= '' or when > 0 then
  call('ZADD', KEYS[2], string.format('%.0f', when), member)
else
  call('ZREM', KEYS[2], member)
end
call(publish % 2 == 1 and 'SPUBLISH' or 'PUBLISH', ARGV[5], '\0' .. sub(c, 1, 8) .. rev .. pack('>I6I4', 0, 0))
return 'O' .. pack('>I8', has + 1) .. rev

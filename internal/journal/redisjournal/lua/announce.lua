#!lua flags=allow-oom
-- An edge lives for another while, or with leave no longer. Answers 'N' if it
-- was not known. KEYS: edges by boot, boots by deadline. ARGV: shift, boot,
-- what it says of itself or "", milliseconds it lives, milliseconds it is
-- remembered after that.
local call = redis.call
local t = call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000) + ARGV[1]
local function num(n) return string.format('%.0f', n) end
for _, boot in ipairs(call('ZRANGEBYSCORE', KEYS[2], '-inf', num(now - ARGV[5]), 'LIMIT', '0', '100')) do
  call('HDEL', KEYS[1], boot)
  call('ZREM', KEYS[2], boot)
end
if ARGV[3] == '' then
  call('HDEL', KEYS[1], ARGV[2])
  call('ZREM', KEYS[2], ARGV[2])
  return 'O'
end
local known = call('HEXISTS', KEYS[1], ARGV[2])
call('HSET', KEYS[1], ARGV[2], ARGV[3])
call('ZADD', KEYS[2], num(now + ARGV[4]), ARGV[2])
call('PEXPIRE', KEYS[1], '86400000')
call('PEXPIRE', KEYS[2], '86400000')
return known == 1 and 'O' or 'N'

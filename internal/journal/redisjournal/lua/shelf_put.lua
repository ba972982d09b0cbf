#!lua
-- A value of the shelf is put, if it has the version that the writer saw.
-- KEYS: value, list of its owner, the list's expiries, and the same two of the
-- owner that it may have now. ARGV: shift, version it must have or "", its new
-- one, data, owner, name on lists, milliseconds to live or 0, owner it may have.
local call = redis.call
local t = call('TIME')
local us = t[1] * 1000000 + t[2] + ARGV[1] * 1000
local now = math.floor(us / 1000)
local old = call('HMGET', KEYS[1], 'v', 'o', 'e', 'm')
local version, owner, expires, made = old[1], old[2], old[3], old[4]
if version and tonumber(expires) ~= 0 and tonumber(expires) <= now then version = false end
if version == ARGV[3] then return 'O' end
if (version or '') ~= ARGV[2] then return 'N' end
-- The lists of another owner were not among the keys: again with them.
if owner and owner ~= ARGV[5] and owner ~= ARGV[8] then return 'A' .. owner end

local function num(n) return string.format('%.0f', n) end
-- A list goes when the last of its values has gone.
local function settle(list, expiries)
  for _, name in ipairs(call('ZRANGEBYSCORE', expiries, '-inf', num(now), 'LIMIT', '0', '100')) do
    call('ZREM', list, name)
    call('ZREM', expiries, name)
  end
  local n = call('ZCARD', list)
  if n == 0 then return end
  if n == call('ZCARD', expiries) then
    local last = call('ZRANGE', expiries, '-1', '-1', 'WITHSCORES')
    local ms = num(math.max(1, last[2] - now) + 60000)
    call('PEXPIRE', list, ms)
    call('PEXPIRE', expiries, ms)
  else
    call('PERSIST', list)
    call('PERSIST', expiries)
  end
end
if owner and owner ~= '' and owner ~= ARGV[5] then
  call('ZREM', KEYS[4], ARGV[6])
  call('ZREM', KEYS[5], ARGV[6])
  settle(KEYS[4], KEYS[5])
end
if not version then made = nil end
local ttl = tonumber(ARGV[7])
expires = ttl > 0 and now + ttl or 0
if ARGV[5] ~= '' then
  -- Each new value of a list comes before all that are on it.
  if not made then
    local newest = call('ZRANGE', KEYS[2], '-1', '-1', 'WITHSCORES')
    made = newest[2] and math.max(us, newest[2] + 1) or us
  end
  call('ZADD', KEYS[2], num(made), ARGV[6])
  if expires > 0 then
    call('ZADD', KEYS[3], num(expires), ARGV[6])
  else
    call('ZREM', KEYS[3], ARGV[6])
  end
  settle(KEYS[2], KEYS[3])
end
call('HSET', KEYS[1], 'v', ARGV[3], 'd', ARGV[4], 'o', ARGV[5], 'e', num(expires), 'm', num(made or us))
if ttl > 0 then call('PEXPIRE', KEYS[1], num(ttl)) else call('PERSIST', KEYS[1]) end
return 'O'

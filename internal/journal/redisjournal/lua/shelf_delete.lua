#!lua flags=allow-oom
-- KEYS: value, list and expiries of the owner that it may have. ARGV: name on
-- lists, that owner.
local call = redis.call
local owner = call('HGET', KEYS[1], 'o')
if not owner then return 'O' end
if owner ~= '' then
  if owner ~= ARGV[2] then return 'A' .. owner end
  call('ZREM', KEYS[2], ARGV[1])
  call('ZREM', KEYS[3], ARGV[1])
end
call('DEL', KEYS[1])
return 'O'

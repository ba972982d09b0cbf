#!lua
-- Takes a run or a thread out of what is due if it is not there any more, as
-- after a loss of its thread alone. KEYS: due or idle, meta. ARGV: its name
-- there, the field of meta that would have it.
if redis.call('HEXISTS', KEYS[2], ARGV[2]) == 0 then
  redis.call('ZREM', KEYS[1], ARGV[1])
end
return 'O'

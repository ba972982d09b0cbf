#!lua flags=allow-oom
-- Threads are written in this schema from now on, unless a newer one is spoken
-- already. KEYS: the schema. ARGV: its number.
local known = tonumber(redis.call('GET', KEYS[1]) or '1')
if tonumber(ARGV[1]) > known then redis.call('SET', KEYS[1], ARGV[1]) end
return 'O'

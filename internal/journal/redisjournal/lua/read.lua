#!lua flags=no-writes,allow-oom
-- What a load reads of a thread, from a server that is too full to queue the
-- same commands.
-- KEYS: meta, stream, base, nodes. ARGV: first record, how many, 1 if the base
-- is wanted, then the ids of nodes.
local call = redis.call
local ids = {}
for i = 4, #ARGV do ids[i - 3] = ARGV[i] end
return {
  call('HGETALL', KEYS[1]),
  call('XRANGE', KEYS[2], ARGV[1], '+', 'COUNT', ARGV[2]),
  ARGV[3] == '1' and call('GET', KEYS[3]),
  #ids > 0 and call('HMGET', KEYS[4], unpack(ids)),
  call('TIME'),
}

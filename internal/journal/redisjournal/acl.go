package redisjournal

// ACLRule is the least that a Redis user needs for the default prefix: its own
// keys and channels, no command that reaches beyond them but those that tell how
// the server is set up. With Redis before 7.2 leave +waitaof out.
const ACLRule = "resetkeys resetchannels ~parlance:* &parlance:* -@all " +
	"+eval +evalsha +get +set +setnx +del +unlink +hget +hmget +hset +hdel +hexists +hgetall +hkeys " +
	"+llen +lpop +rpush +lrange +xadd +xrange +xtrim " +
	"+zadd +zrem +zrange +zrangebyscore +zrevrange +zrevrank +zcard " +
	"+pexpire +persist +publish +spublish +subscribe +ssubscribe +unsubscribe +sunsubscribe " +
	"+multi +exec +ping +time +wait +waitaof +info +config|get +hello +auth +select +client|setname " +
	"+cluster|slots +cluster|shards +command +readonly"

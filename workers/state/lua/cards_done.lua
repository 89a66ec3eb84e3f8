-- ARGV: channel, who took it, approval id, ms until it is to be looked at again or ''
local due, taken, id = K.cards_due(ARGV[1]), K.cards_taken(ARGV[1]), ARGV[3]
if redis.call('HGET', taken, id) ~= ARGV[2] then return {} end
local again = redis.call('HEXISTS', taken, id .. ':again') == 1
redis.call('HDEL', taken, id, id .. ':again')
if again then redis.call('ZADD', due, int(NOW), id)
elseif ARGV[4] ~= '' then redis.call('ZADD', due, int(NOW + ARGV[4]), id)
else redis.call('ZREM', due, id) end
return {}

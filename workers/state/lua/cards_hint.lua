-- ARGV: channel, then approval ids
-- Their cards are to be looked at now; those that somebody looks at, once more after that.
local due, taken = K.cards_due(ARGV[1]), K.cards_taken(ARGV[1])
for i = 2, #ARGV do
  if redis.call('HEXISTS', taken, ARGV[i]) == 1 then redis.call('HSET', taken, ARGV[i] .. ':again', '1')
  else redis.call('ZADD', due, 'LT', int(NOW), ARGV[i]) end
end
return {}

-- ARGV: channel, who takes, ms that it may keep them, most
-- The requests whose cards are to be looked at, and ms until the next is, '' if none is. One that was taken by a
-- replica that has died is due again when its time is over.
local due, taken = K.cards_due(ARGV[1]), K.cards_taken(ARGV[1])
local ids = redis.call('ZRANGEBYSCORE', due, '-inf', int(NOW), 'LIMIT', 0, ARGV[4])
for _, id in ipairs(ids) do
  redis.call('ZADD', due, int(NOW + ARGV[3]), id)
  redis.call('HSET', taken, id, ARGV[2])
end
local next_due = redis.call('ZRANGE', due, 0, 0, 'WITHSCORES')
return {next_due[2] and int(math.max(0, next_due[2] - NOW)) or '', unpack(ids)}

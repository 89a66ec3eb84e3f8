-- ARGV: model, threshold, cool-down in ms, call, how it ended, cool-downs that an open breaker is remembered
-- Returns '1' if that opened the breaker. Not fenced: what the model did counts, whose run it was does not.
local key, cool_down, ended = K.breaker(ARGV[1]), tonumber(ARGV[3]), ARGV[5]
local open = redis.call('HEXISTS', key, 'open_until') == 1
local tried = redis.call('HDEL', key, 'trial:' .. ARGV[4]) == 1
-- what began before it opened says nothing of it any more
if ended == 'neither' or (open and not tried) then return {''} end
if ended == 'answered' then
  redis.call('DEL', key)
  return {''}
end
local failures = redis.call('HINCRBY', key, 'failures', 1)
if not open and failures < tonumber(ARGV[2]) then
  redis.call('PEXPIRE', key, int(cool_down))
  return {''}
end
redis.call('HSET', key, 'open_until', int(NOW + cool_down))
redis.call('PEXPIRE', key, int(cool_down * (1 + ARGV[6])))
return {'1'}

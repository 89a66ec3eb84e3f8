-- ARGV: run id, token, checkpoint id
-- A segment that is started again found a newer checkpoint than it began from: count its attempts anew.
if not fenced(ARGV[1], ARGV[2]) then return refuse(ARGV[1]) end
if redis.call('HGET', K.run(ARGV[1]), 'progress') ~= ARGV[3] then
  redis.call('HSET', K.run(ARGV[1]), 'progress', ARGV[3], 'attempt', '1')
end
return 1

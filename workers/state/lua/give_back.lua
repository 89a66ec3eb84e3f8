-- ARGV: run id, token, pid, reason, '1' if the attempt does not count
-- A worker that stops hands the run to any other.
local run, token = ARGV[1], ARGV[2]
local thread = fenced(run, token)
if not thread then
  -- the lease ran out while the store was away: its worker had not died
  if ARGV[5] == '1' and redis.call('HGET', K.run(run), 'lost_token') == token then
    redis.call('HDEL', K.run(run), 'lost_token')
    redis.call('HINCRBY', K.run(run), 'deaths', -1)
    if tonumber(redis.call('HGET', K.run(run), 'attempt')) > 0 then redis.call('HINCRBY', K.run(run), 'attempt', -1) end
  end
  return refuse(ARGV[1])
end
release(thread)
doubt(run)
redis.call('HSET', K.run(run), 'due', '1')
set_status(run, pause_of(run).pending and 'interrupted' or 'pending')
event(run, 'run.given_back', cjson.encode({reason = ARGV[4]}), nil, ARGV[3])
if ARGV[5] == '1' then redis.call('HINCRBY', K.run(run), 'attempt', -1) end
if not stopped(run, ARGV[3]) then wake(run) end
return {'given_back', WOKEN}

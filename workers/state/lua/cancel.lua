-- ARGV: run id, reason, pid
local run, reason = ARGV[1], ARGV[2]
local r = redis.call('HMGET', K.run(run), 'status', 'thread_id')
if not r[1] then return {'missing', WOKEN} end
if redis.call('HGET', K.run(run), 'ended_at') then return {'ended', WOKEN} end
if held(r[2]) and redis.call('HGET', K.lease(r[2]), 'run_id') == run then
  redis.call('HSET', K.run(run), 'cancel_requested', reason)
  return {'requested', WOKEN}
end
finish(run, 'cancelled', reason, 'unknown')
event(run, 'run.ended', cjson.encode({status = 'cancelled', reason = reason}), nil, ARGV[3])
return {'cancelled', WOKEN}

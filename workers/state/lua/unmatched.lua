-- ARGV: run id, token, pid, why, the worker's fleet, JSON: ids of requests whose answers it was the first to be handed
-- The run does not fit the worker's graph: it is left as it was, for workers of another fleet to ask for.
local run, token, why = ARGV[1], ARGV[2], ARGV[4]
local thread = fenced(run, token)
if not thread then return refuse(run) end
release(thread)
for _, id in ipairs(cjson.decode(ARGV[6])) do
  redis.call('HSET', K.approval(id), 'delivered', '', 'outcome', 'none', 'outcome_reason', '')
end
redis.call('HINCRBY', K.run(run), 'attempt', -1)
if redis.call('HINCRBY', K.run(run), 'segment', -1) == 0 then
  redis.call('HDEL', K.run(run), 'started_at', 'deadline')
  redis.call('ZREM', K.deadlines, run)
end
local pause = pause_of(run)
if not pause.fresh then redis.call('HSET', K.run(run), 'due', '1') end
local ended = stopped(run, ARGV[3])
if ended then return {ended, WOKEN} end
redis.call('HSET', K.run_refusals(run), ARGV[5], int(NOW + ASK_AGAIN_MS))
redis.call('ZADD', K.unmatched(redis.call('HGET', K.run(run), 'queue')), int(NOW), run)
if redis.call('HGET', K.run(run), 'incompatible') ~= why then
  redis.call('HSET', K.run(run), 'incompatible', why)
  for _, id in ipairs(redis.call('LRANGE', K.run_pause(run), 0, -1)) do
    redis.call('HSET', K.approval(id), 'incompatible', why)
    local status = redis.call('HGET', K.approval(id), 'status')
    announce(id, status == 'pending' and 'requested' or status)
  end
  event(run, 'run.incompatible', cjson.encode({reason = why}), nil, ARGV[3])
end
set_status(run, pause.pending and 'interrupted' or 'pending')
return {'unmatched', WOKEN}

-- ARGV: owner, facts of the worker (JSON), most wake-ups to send, then the queues it consumes
-- What crashes leave: leases that ran out, timers that are due, wake-ups that were not sent or got lost.
local owner, limit = ARGV[1], tonumber(ARGV[3])
redis.call('ZADD', K.workers, int(NOW), owner)
redis.call('HSET', K.worker(owner), 'facts', ARGV[2], 'seen_at', int(NOW))
redis.call('EXPIRE', K.worker(owner), 3600)
redis.call('ZREMRANGEBYSCORE', K.workers, '-inf', int(NOW - 3600000))
for _, thread in ipairs(redis.call('ZRANGEBYSCORE', K.leases, '-inf', int(NOW), 'LIMIT', 0, 100)) do
  local lease = redis.call('HMGET', K.lease(thread), 'run_id', 'owner')
  release(thread)
  local run = lease[1]
  if run and redis.call('HGET', K.run(run), 'status') == 'running' and recover(run, lease[2]) then wake(run) end
end
for _, run in ipairs(redis.call('ZRANGEBYSCORE', K.timers, '-inf', int(NOW), 'LIMIT', 0, 100)) do
  redis.call('ZREM', K.timers, run)
  local r = redis.call('HMGET', K.run(run), 'thread_id', 'segment', 'status')
  if r[2] == '0' then
    redis.call('HDEL', K.run(run), 'wake_at')
    enter(run, r[1])
  else wake(run) end
end
for i = 4, #ARGV do
  local left = limit - #WOKEN
  if left <= 0 then break end
  for _, run in ipairs(redis.call('ZRANGEBYSCORE', K.outbox(ARGV[i]), '-inf', int(NOW), 'LIMIT', 0, left)) do
    local sends = redis.call('HINCRBY', K.run(run), 'sends', 1)
    redis.call('ZADD', K.outbox(ARGV[i]), int(NOW + math.min(RESEND_MS * 2 ^ math.min(sends, 10), 120000)), run)
    WOKEN[#WOKEN + 1] = {run, ARGV[i], redis.call('HGET', K.run(run), 'segment') or '0'}
  end
end
return {WOKEN}

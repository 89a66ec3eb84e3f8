-- ARGV: owner, facts of the worker (JSON), most wake-ups to send, then the queues it consumes
-- What crashes leave: runs whose time is over, leases that ran out, timers that are due, wake-ups that were not
-- sent or got lost.
local owner, limit = ARGV[1], tonumber(ARGV[3])
local unreadable = {}

-- One record that is missing or broken must not keep all others from going on: it is taken off and told of.
local function each(ids, index, look)
  for _, id in ipairs(ids) do
    if not pcall(look, id) then
      redis.call('ZREM', index, id)
      unreadable[#unreadable + 1] = id
    end
  end
end

-- what this worker wrote at its last look: older than it knows, and the store has lost what came since
local seen = redis.call('ZSCORE', K.workers, owner)
redis.call('ZADD', K.workers, int(NOW), owner)
redis.call('HSET', K.worker(owner), 'facts', ARGV[2], 'seen_at', int(NOW))
redis.call('EXPIRE', K.worker(owner), 3600)
redis.call('ZREMRANGEBYSCORE', K.workers, '-inf', int(NOW - 3600000))

each(redis.call('ZRANGEBYSCORE', K.deadlines, '-inf', int(NOW), 'LIMIT', 0, 100), K.deadlines, function(run)
  stop_late(run)
  redis.call('ZREM', K.deadlines, run)
end)

each(redis.call('ZRANGEBYSCORE', K.leases, '-inf', int(NOW), 'LIMIT', 0, 100), K.leases, function(thread)
  local lease = redis.call('HMGET', K.lease(thread), 'run_id', 'owner')
  release(thread)
  local run = lease[1]
  if run and redis.call('HGET', K.run(run), 'status') == 'running' and recover(run, lease[2]) then wake(run) end
end)

each(redis.call('ZRANGEBYSCORE', K.timers, '-inf', int(NOW), 'LIMIT', 0, 100), K.timers, function(run)
  redis.call('ZREM', K.timers, run)
  local r = redis.call('HMGET', K.run(run), 'thread_id', 'segment')
  if not r[1] then error('no such run') end
  if r[2] == '0' then
    redis.call('HDEL', K.run(run), 'wake_at')
    enter(run, r[1])
  else wake(run) end
end)

for i = 4, #ARGV do
  local queue, left = ARGV[i], limit - #WOKEN
  if left <= 0 then break end
  local due = redis.call('ZRANGEBYSCORE', K.outbox(queue), '-inf', int(NOW), 'LIMIT', 0, left)
  each(due, K.outbox(queue), function(run)
    local segment = redis.call('HGET', K.run(run), 'segment')
    if not segment then error('no such run') end
    local sends = redis.call('HINCRBY', K.run(run), 'sends', 1)
    redis.call('ZADD', K.outbox(queue), int(NOW + math.min(RESEND_MS * 2 ^ math.min(sends, 10), 120000)), run)
    WOKEN[#WOKEN + 1] = {run, queue, segment}
  end)
end
return {unreadable, seen or '', int(NOW), WOKEN}

-- ARGV: owner, facts of the worker (JSON), most wake-ups to send, its fleet and build, most runs to take on
--       itself, then the queues it consumes
-- What crashes leave: runs whose time is over, leases that ran out, timers that are due, wake-ups that were not
-- sent or got lost. And the runs that wait for another deployment than others have, and might go on here.
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
  local run = redis.call('HGET', K.lease(thread), 'run_id')
  if not run or redis.call('HGET', K.run(run), 'status') ~= 'running' then release(thread)
  elseif recover(run, thread) then wake(run) end
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

for i = 7, #ARGV do
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

local asked, build = {}, ARGV[5]
for i = 7, #ARGV do
  local queue, most, window = ARGV[i], tonumber(ARGV[6]), 200
  if build ~= '' then
    redis.call('ZADD', K.builds(queue), int(NOW), build)
    redis.call('ZREMRANGEBYSCORE', K.builds(queue), '-inf', int(NOW - 3600000))
  end
  -- of many a part, another one each time: those at the front may be for nobody
  local all = redis.call('ZCARD', K.unmatched(queue))
  local from = all > window and NOW % (all - window + 1) or 0
  each(redis.call('ZRANGE', K.unmatched(queue), int(from), int(from + window - 1)), K.unmatched(queue), function(run)
    if not redis.call('HGET', K.run(run), 'status') then error('no such run') end
    if #asked < most and not not_for(run, ARGV[4], build) then asked[#asked + 1] = run end
  end)
end
return {unreadable, asked, seen or '', int(NOW), WOKEN}

-- ARGV: run id, owner, lease in ms, most attempts, pid
-- Gives the thread's lease if there is something to do for the run and nobody does it.
local run, owner, lease_ms, max_attempts, pid = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4]), ARGV[5]
stop_late(run)
local r = redis.call('HMGET', K.run(run), 'status', 'thread_id', 'queue', 'wake_at', 'attempt', 'due', 'progressed')
local status, thread = r[1], r[2]
if not status then return {'missing', WOKEN} end
local function no(why)
  redis.call('ZREM', K.outbox(r[3]), run)
  return {why, WOKEN}
end
if status == 'success' or status == 'error' or status == 'timeout' or status == 'cancelled' then
  return no('ended')
end
if redis.call('LINDEX', K.thread_queue(thread), 0) ~= run then return no('queued') end
if held(thread) then return no('busy') end
local pause = pause_of(run)
local timer_due = r[4] and tonumber(r[4]) <= NOW
local crashed = status == 'running'
if crashed and not recover(run, redis.call('HGET', K.lease(thread), 'owner') or '') then return {'ended', WOKEN} end
if not (crashed or r[6] == '1' or pause.fresh or timer_due) then return no('waiting') end
local attempt = (r[7] == '1' and 0 or tonumber(r[5])) + 1
if attempt > max_attempts then
  redis.call('HSET', K.run(run), 'error', cjson.encode({type = 'TooManyAttempts', node = cjson.null,
    message = 'no progress in ' .. int(max_attempts) .. ' attempts: its worker died or gave it back each time'}))
  finish(run, 'error', 'too many attempts', 'unknown')
  event(run, 'run.ended', cjson.encode({status = 'error'}))
  return {'ended', WOKEN}
end
local token = int(math.max(tonumber(redis.call('GET', K.fence) or '0') + 1, NOW))
redis.call('SET', K.fence, token)
redis.call('DEL', K.lease(thread))
redis.call('HSET', K.lease(thread), 'token', token, 'run_id', run, 'owner', owner)
redis.call('ZADD', K.leases, int(NOW + lease_ms), thread)
redis.call('ZREM', K.outbox(r[3]), run)
redis.call('ZREM', K.timers, run)
redis.call('HDEL', K.run(run), 'wake_at')
redis.call('HSET', K.run(run), 'attempt', int(attempt), 'due', '', 'progressed', '',
  'worker', owner)
redis.call('HSETNX', K.run(run), 'started_at', int(NOW))
local segment = redis.call('HINCRBY', K.run(run), 'segment', 1)
redis.call('HSET', K.thread(thread), 'last_run', run)
set_status(run, 'running')
local clock = redis.call('HMGET', K.run(run), 'timeout_ms', 'deadline')
if clock[1] and not clock[2] then
  redis.call('HSET', K.run(run), 'deadline', int(NOW + clock[1]))
  redis.call('ZADD', K.deadlines, int(NOW + clock[1]), run)
end
for _, row in ipairs(pause.answers) do
  local kind = cjson.decode(row[5]).type
  if kind == 'reject' then settle(row[1], 'not_run', 'rejected')
  elseif kind == 'respond' then settle(row[1], 'not_run', 'responded')
  else redis.call('HSET', K.approval(row[1]), 'outcome', 'started') end
  redis.call('HSET', K.approval(row[1]), 'delivered', token)
end
event(run, segment == 1 and 'run.started' or 'run.resumed',
  cjson.encode({segment = segment, worker = owner}), int(attempt), pid)
local left = redis.call('HMGET', K.thread(thread), 'repair', 'rollback')
return {'claimed', token, redis.call('HGETALL', K.run(run)), pause.answers, left[1] or '', left[2] or '[]', WOKEN}

-- ARGV: run id, pid. Puts a failed run back at its last checkpoint.
local run = ARGV[1]
local r = redis.call('HMGET', K.run(run), 'status', 'thread_id')
local thread = r[2]
if not r[1] then return {'missing', '', WOKEN} end
if r[1] ~= 'error' and r[1] ~= 'timeout' then
  local ended = r[1] == 'success' or r[1] == 'cancelled'
  local is = ended and 'it ended as ' or 'it is '
  return {'conflict', is .. r[1] .. '; only a failed run can be retried', WOKEN}
end
local why = gone(thread)
if why then
  local what = {deleted = 'its thread was deleted', expired = 'its thread has expired',
    lost = 'the checkpoints of its thread are gone'}
  return {'conflict', what[why], WOKEN}
end
local last = redis.call('HGET', K.thread(thread), 'last_run')
-- the thread's record outlives a deletion for some time only
if not last then return {'conflict', 'its thread was deleted', WOKEN} end
if last ~= run then return {'conflict', 'its thread has gone on with run ' .. last, WOKEN} end
forget_failures(run)
redis.call('DEL', K.run_tries(run))
opened(thread)
redis.call('ZREM', K.ended, run)
set_status(run, 'pending')
redis.call('HSET', K.run(run), 'attempt', '0', 'due', '1')
redis.call('HDEL', K.run(run), 'ended_at', 'error', 'reason', 'deaths', 'lost_workers', 'lost_token')
redis.call('PERSIST', K.run_events(run))
-- a run that had its turn meanwhile, and was not claimed yet, waits again
local first = redis.call('LINDEX', K.thread_queue(thread), 0)
if first then redis.call('ZREM', K.outbox(redis.call('HGET', K.run(first), 'queue')), first) end
redis.call('LPUSH', K.thread_queue(thread), run)
event(run, 'run.retried', '{}', nil, ARGV[2])
wake(run)
return {'retried', '', WOKEN}

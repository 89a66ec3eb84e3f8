-- ARGV: run id, thread id, payload digest, start_at (ms or ''), multitask strategy, pid, then field/value pairs of
-- the run
local run, thread, digest, start_at, strategy = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local known = redis.call('HGET', K.run(run), 'input_digest')
if known then return {known == digest and 'same' or 'conflict', WOKEN} end
local why = gone(thread)
if why then return {'gone', why, WOKEN} end
local ahead = redis.call('LRANGE', K.thread_queue(thread), 0, -1)
if strategy == 'reject' and ahead[1] then
  return {'busy', ahead[1], redis.call('HGET', K.run(ahead[1]), 'status'), WOKEN}
end
redis.call('HSET', K.run(run), 'id', run, 'thread_id', thread, 'input_digest', digest, 'status', 'pending',
  'created_at', int(NOW), 'updated_at', int(NOW), 'attempt', '0', 'segment', '0', 'progress', '')
for i = 7, #ARGV, 2 do redis.call('HSET', K.run(run), ARGV[i], ARGV[i + 1]) end
redis.call('ZADD', K.runs, int(NOW), run)
redis.call('ZADD', K.runs_in('pending'), int(NOW), run)
redis.call('ZADD', K.thread_runs(thread), int(NOW), run)
opened(thread)
event(run, 'run.enqueued', cjson.encode({thread_id = thread}))
if start_at ~= '' and tonumber(start_at) > NOW then
  redis.call('HSET', K.run(run), 'wake_at', start_at)
  redis.call('ZADD', K.timers, start_at, run)
else
  local said = {interrupt = 'interrupted by run ' .. run, rollback = 'rolled back by run ' .. run}
  -- the last first: none of them gets another's turn
  for i = said[strategy] and #ahead or 0, 1, -1 do stop(ahead[i], strategy, said[strategy], ARGV[6]) end
  enter(run, thread)
end
return {'created', WOKEN}

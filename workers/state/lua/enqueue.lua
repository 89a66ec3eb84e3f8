-- ARGV: run id, thread id, payload digest, start_at (ms or ''), then field/value pairs of the run
local run, thread, digest, start_at = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local known = redis.call('HGET', K.run(run), 'input_digest')
if known then return {known == digest and 'same' or 'conflict', WOKEN} end
local why = gone(thread)
if why then return {'gone', why, WOKEN} end
redis.call('HSET', K.run(run), 'id', run, 'thread_id', thread, 'input_digest', digest, 'status', 'pending',
  'created_at', int(NOW), 'updated_at', int(NOW), 'attempt', '0', 'segment', '0', 'progress', '')
for i = 5, #ARGV, 2 do redis.call('HSET', K.run(run), ARGV[i], ARGV[i + 1]) end
redis.call('ZADD', K.runs, int(NOW), run)
redis.call('ZADD', K.runs_in('pending'), int(NOW), run)
redis.call('ZADD', K.thread_runs(thread), int(NOW), run)
opened(thread)
event(run, 'run.enqueued', cjson.encode({thread_id = thread}))
if start_at ~= '' and tonumber(start_at) > NOW then
  redis.call('HSET', K.run(run), 'wake_at', start_at)
  redis.call('ZADD', K.timers, start_at, run)
else
  enter(run, thread)
end
return {'created', WOKEN}

-- ARGV: thread id, pid. Ends what runs on the thread, voids its requests, removes its checkpoints.
local thread, existed = ARGV[1], 0
-- a worker that executes it is fenced out from here on, and no run takes another's turn
release(thread)
redis.call('DEL', K.thread_queue(thread))
for _, run in ipairs(redis.call('ZRANGE', K.thread_runs(thread), 0, -1)) do
  existed = 1
  redis.call('DEL', K.run_ledger(run), K.run_counts(run), K.run_tries(run))
  if not redis.call('HGET', K.run(run), 'ended_at') then
    finish(run, 'cancelled', 'the thread was deleted', 'unknown')
    event(run, 'run.ended', cjson.encode({status = 'cancelled', reason = 'the thread was deleted'}), nil, ARGV[2])
  end
end
existed = redis.call('DEL', K.checkpoint(thread)) + existed
redis.call('DEL', K.thread(thread), K.thread_counts(thread))
redis.call('ZREM', K.idle, thread)
if existed > 0 then
  redis.call('HSET', K.thread(thread), 'deleted_at', int(NOW))
  redis.call('EXPIRE', K.thread(thread), TOMBSTONE_SECONDS)
end
return {int(existed), WOKEN}

-- ARGV: run id, token
local thread = fenced(ARGV[1], ARGV[2])
if not thread then return refuse(ARGV[1]) end
local left = redis.call('HGET', K.thread(thread), 'repair_run')
redis.call('HDEL', K.thread(thread), 'repair', 'repair_run', 'rollback')
-- the thread goes on without that run: it is not retried any more
if left then redis.call('UNLINK', K.run_ledger(left)) end
return 1

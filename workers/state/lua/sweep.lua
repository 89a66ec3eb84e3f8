-- ARGV: ms that records of ended runs live ('0': for ever), ms that an idle thread lives (the same), '1' if the
--       checkpoints are another checkpointer's, most records to remove, then threads that this one has deleted
-- What has outlived its lifetime goes, with every entry that names it. Returns '1' if there is more to do, and the
-- threads whose checkpoints are to be deleted elsewhere.
local keep, ttl, elsewhere, left = tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[3] == '1', tonumber(ARGV[4])
local looked_at = left
local deleted = {}

local function forget_approval(id)
  redis.call('UNLINK', K.approval(id), K.cards(id))
  redis.call('ZREM', K.approvals, id)
  for _, status in ipairs({'pending', 'decided', 'expired', 'superseded', 'cancelled'}) do
    redis.call('ZREM', K.approvals_in(status), id)
  end
end

local function forget_run(run)
  if left <= 0 then return end
  -- one that asked more than is to be removed at once loses its requests first, the rest the next time
  for _, id in ipairs(redis.call('ZRANGE', K.run_approvals(run), 0, left - 1)) do
    forget_approval(id)
    redis.call('ZREM', K.run_approvals(run), id)
    left = left - 1
  end
  if left <= 0 then return end
  left = left - 1
  local thread, graph = unpack(redis.call('HMGET', K.run(run), 'thread_id', 'graph'))
  if graph then drop_graph(graph) end
  redis.call('UNLINK', K.run(run), K.run_events(run), K.run_pause(run), K.run_ledger(run),
    K.run_counts(run), K.run_tries(run))
  redis.call('ZREM', K.runs, run)
  redis.call('ZREM', K.ended, run)
  for _, status in ipairs({'pending', 'running', 'interrupted', 'success', 'error', 'timeout', 'cancelled'}) do
    redis.call('ZREM', K.runs_in(status), run)
  end
  if not thread then return end
  redis.call('ZREM', K.thread_runs(thread), run)
  local t = redis.call('HMGET', K.thread(thread), 'kept', 'deleted_at', 'expired_at')
  -- whether another checkpointer has something of the thread is not known here
  local needed = elsewhere or t[1] or t[2] or t[3]
  if not needed and redis.call('EXISTS', K.thread_runs(thread), K.checkpoint(thread)) == 0 then
    redis.call('DEL', K.thread(thread), K.thread_counts(thread))
    redis.call('ZREM', K.idle, thread)
  end
end

for i = 5, #ARGV do redis.call('ZREM', K.idle, ARGV[i]) end

if keep > 0 then
  for _, run in ipairs(redis.call('ZRANGEBYSCORE', K.ended, '-inf', int(NOW - keep), 'LIMIT', 0, left)) do
    forget_run(run)
  end
end

if ttl > 0 and left > 0 then
  for _, thread in ipairs(redis.call('ZRANGEBYSCORE', K.idle, '-inf', int(NOW - ttl), 'LIMIT', 0, left)) do
    left = left - 1
    redis.call('HDEL', K.thread(thread), 'kept', 'repair', 'repair_run', 'rollback', 'last_run')
    redis.call('HSET', K.thread(thread), 'expired_at', int(NOW))
    redis.call('EXPIRE', K.thread(thread), TOMBSTONE_SECONDS)
    redis.call('UNLINK', K.checkpoint(thread), K.thread_counts(thread))
    if elsewhere then
      -- until somebody says that they are deleted, it is tried again
      redis.call('ZADD', K.idle, int(NOW - ttl + 60000), thread)
      deleted[#deleted + 1] = thread
    else redis.call('ZREM', K.idle, thread) end
  end
end

-- go round the indexes, a little each time, for names of records that were lost (a server that evicts, a failover)
local function go_round(name, index, key, forget)
  local from = tonumber(redis.call('HGET', K.swept, name) or '0')
  local ids, gone = redis.call('ZRANGE', index, from, from + looked_at - 1), 0
  for _, id in ipairs(ids) do
    if left > 0 and redis.call('EXISTS', key(id)) == 0 then
      forget(id)
      gone = gone + 1
    end
  end
  redis.call('HSET', K.swept, name, #ids < looked_at and 0 or int(from + #ids - gone))
end
local more = left <= 0
left = looked_at
go_round('runs', K.runs, K.run, forget_run)
go_round('approvals', K.approvals, K.approval, forget_approval)
return {more and '1' or '', deleted}

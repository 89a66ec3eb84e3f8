-- How runs end: by themselves, because somebody asked, or because their worker did.

-- Take back what a run still asks.
local function void(run, to, reason)
  for _, id in ipairs(redis.call('ZRANGE', K.run_approvals(run), 0, -1)) do
    if redis.call('HGET', K.approval(id), 'status') == 'pending' then
      settle(id, 'not_run', reason)
      set_approval(id, to, reason)
      announce(id, to)
    end
  end
end

-- What becomes of the requests of a run that was asked to stop: a run that came after it supersedes them.
local function voided(how) return (how == 'interrupt' or how == 'rollback') and 'superseded' or 'cancelled' end

-- The thread's next run takes its checkpoints away before it begins.
local function roll_back(run, thread)
  local runs = cjson.decode(redis.call('HGET', K.thread(thread), 'rollback') or '[]')
  runs[#runs + 1] = run
  redis.call('HDEL', K.thread(thread), 'kept')
  redis.call('HSET', K.thread(thread), 'rollback', cjson.encode(runs))
end

-- End a run, void what it still asked, and let its thread's next run go.
local function finish(run, status, reason, outcome)
  local r = redis.call('HMGET', K.run(run), 'thread_id', 'queue', 'stop', 'segment')
  local thread = r[1]
  void(run, voided(r[3]), reason)
  for _, id in ipairs(redis.call('ZRANGE', K.run_approvals(run), 0, -1)) do
    local a = redis.call('HMGET', K.approval(id), 'status', 'delivered')
    if a[1] == 'decided' then
      if a[2] == '' then settle(id, 'not_run', reason)
      else settle(id, outcome, status == 'success' and '' or reason) end
    end
  end
  redis.call('DEL', K.run_pause(run))
  redis.call('ZREM', K.outbox(r[2]), run)
  redis.call('ZREM', K.unmatched(r[2]), run)
  redis.call('ZREM', K.timers, run)
  clear_unmatched(run)
  set_status(run, status)
  redis.call('ZREM', K.deadlines, run)
  redis.call('HSET', K.run(run), 'ended_at', int(NOW), 'reason', reason)
  redis.call('HDEL', K.run(run), 'due', 'wake_at', 'stop', 'stop_reason', 'deadline', 'time_left')
  redis.call('EXPIRE', K.run_events(run), EVENTS_KEEP_SECONDS)
  if r[3] == 'rollback' then uncount(run, thread) end
  -- a run that failed can be retried, and then needs to know what it did; so does whoever mends the thread
  if status == 'success' then redis.call('UNLINK', K.run_ledger(run)) end
  if status == 'success' or status == 'cancelled' then
    redis.call('UNLINK', K.run_counts(run), K.run_tries(run))
  end
  redis.call('ZADD', K.ended, int(NOW), run)
  if redis.call('HINCRBY', K.thread(thread), 'open', -1) <= 0 then redis.call('ZADD', K.idle, int(NOW), thread) end
  note_kept(thread)
  if redis.call('HGET', K.lease(thread), 'run_id') == run then release(thread) end
  -- an abnormal end may leave tool calls without a result: the next run on the thread mends that first
  if redis.call('HGET', K.thread(thread), 'last_run') == run then
    if status == 'success' then redis.call('HDEL', K.thread(thread), 'repair', 'repair_run')
    else
      redis.call('HSET', K.thread(thread), 'repair', reason ~= '' and reason or status)
      redis.call('HSETNX', K.thread(thread), 'repair_run', run) -- a later one may have failed before it mended
    end
  end
  if r[3] == 'rollback' and r[4] ~= '0' then roll_back(run, thread) end
  local was_first = redis.call('LINDEX', K.thread_queue(thread), 0) == run
  redis.call('LREM', K.thread_queue(thread), 1, run)
  local next_run = redis.call('LINDEX', K.thread_queue(thread), 0)
  if was_first and next_run then wake(next_run) end
end

-- End a run that was asked to stop, whatever else it came to. Returns its status, nil if nobody has asked.
local function stopped(run, pid)
  local r = redis.call('HMGET', K.run(run), 'stop', 'stop_reason')
  if not r[1] then return nil end
  local status = r[1] == 'timeout' and 'timeout' or 'cancelled'
  if status == 'timeout' then
    redis.call('HSET', K.run(run), 'error', cjson.encode({type = 'RunTimeout', message = r[2], node = cjson.null}))
  end
  finish(run, status, r[2], 'unknown')
  event(run, 'run.ended', cjson.encode({status = status, reason = r[2]}), nil, pid)
  return status
end

-- Ask a run to stop, `how`: it ends at once if nobody executes it, else its worker is told. Of two that ask
-- the first is heard, but a cancellation counts for more than a timeout, and a rollback for more than both.
local WEIGHT = {timeout = 1, cancel = 2, interrupt = 2, rollback = 3}
local function stop(run, how, reason, pid)
  local r = redis.call('HMGET', K.run(run), 'thread_id', 'stop')
  if not r[2] or WEIGHT[how] > WEIGHT[r[2]] then
    redis.call('HSET', K.run(run), 'stop', how, 'stop_reason', reason)
  end
  if held(r[1]) and redis.call('HGET', K.lease(r[1]), 'run_id') == run then
    void(run, voided(how), reason)
    redis.call('XADD', K.stops, 'MAXLEN', '~', STOPS_MAX, '*', 'run', run)
    return 'requested'
  end
  return stopped(run, pid)
end

-- Ask a run to stop whose time is over.
local function stop_late(run)
  local r = redis.call('HMGET', K.run(run), 'deadline', 'timeout_ms')
  if r[1] and tonumber(r[1]) <= NOW then
    local seconds = string.format('%g', tonumber(r[2]) / 1000)
    stop(run, 'timeout', 'timed out: it did not end within ' .. seconds .. ' s of its own time')
  end
end

-- End a run whose thread's checkpoints are gone: it cannot go on, and does not start anew.
local function strand(run, thread, pid)
  redis.call('HSET', K.run(run), 'error', cjson.encode({type = 'ThreadExpired', node = cjson.null,
    message = "the checkpoints of thread '" .. thread .. "' are gone: they expired, were removed or lost"}))
  finish(run, 'error', 'the checkpoints of its thread are gone', 'unknown')
  redis.call('HDEL', K.thread(thread), 'repair', 'repair_run', 'rollback')
  event(run, 'run.ended', cjson.encode({status = 'error', reason = 'the checkpoints of its thread are gone'}), nil, pid)
end

-- A run whose worker is gone (its lease ran out): count that, say so, and make it claimable, or end it if that
-- was asked. Returns whether it goes on.
local function recover(run, thread)
  local lease = redis.call('HMGET', K.lease(thread), 'owner', 'token')
  local lost_worker = lease[1] or ''
  local pause = pause_of(run)
  local calls, again = doubt(run)
  local before = redis.call('HGET', K.run(run), 'lost_workers')
  redis.call('HINCRBY', K.run(run), 'deaths', 1)
  redis.call('HSET', K.run(run), 'lost_token', lease[2] or '',
    'lost_workers', string.sub(lost_worker .. (before and ', ' .. before or ''), 1, 1000))
  release(thread)
  -- what no ledger tells of: questions whose answer was handed over
  for _, id in ipairs(redis.call('ZRANGE', K.run_approvals(run), 0, -1)) do
    if redis.call('HGET', K.approval(id), 'outcome') == 'started' then again[#again + 1] = id end
  end
  local data = {lost_worker = lost_worker}
  -- requests whose calls were under way: whether they took effect is not known
  if #again > 0 then data.may_run_again = again end
  if #calls > 0 then data.unknown_calls = calls end
  event(run, 'run.recovered', cjson.encode(data))
  if stopped(run) then return false end
  redis.call('HSET', K.run(run), 'due', '1')
  set_status(run, pause.pending and 'interrupted' or 'pending')
  return true
end

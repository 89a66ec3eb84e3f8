-- What every script shares: the clock, and the moves that several of them make.
local TIME = redis.call('TIME')
local NOW = TIME[1] * 1000 + math.floor(TIME[2] / 1000)

-- Runs that became claimable, as {run id, queue, segment}: the caller sends their wake-ups. The outbox
-- holds each until it is claimed, so that a wake-up lost on the way is sent again.
local WOKEN = {}

local function int(n) return string.format('%.0f', n) end

local function event(run, kind, data, attempt, pid, ns)
  local seq = redis.call('HINCRBY', K.run(run), 'event_seq', 1)
  redis.call('XADD', K.run_events(run), 'MAXLEN', '~', EVENTS_MAX, int(seq) .. '-0',
    'type', kind, 'data', data or '{}', 'at', int(NOW),
    'attempt', attempt or redis.call('HGET', K.run(run), 'attempt') or '0', 'pid', pid or '', 'ns', ns or '')
end

local function announce(approval, what)
  redis.call('XADD', K.approvals_stream, 'MAXLEN', '~', APPROVALS_STREAM_MAX, '*',
    'approval', approval, 'event', what, 'at', int(NOW))
end

local function set_status(run, to)
  local r = redis.call('HMGET', K.run(run), 'status', 'created_at')
  if r[1] ~= to then
    redis.call('ZREM', K.runs_in(r[1]), run)
    redis.call('ZADD', K.runs_in(to), r[2], run)
  end
  redis.call('HSET', K.run(run), 'status', to, 'updated_at', int(NOW))
end

local function set_approval(id, to, reason)
  local a = redis.call('HMGET', K.approval(id), 'status', 'created_at')
  redis.call('ZREM', K.approvals_in(a[1]), id)
  redis.call('ZADD', K.approvals_in(to), a[2], id)
  redis.call('HSET', K.approval(id), 'status', to, 'reason', reason or '')
end

local function wake(run)
  local r = redis.call('HMGET', K.run(run), 'queue', 'segment')
  redis.call('HSET', K.run(run), 'sends', '0')
  redis.call('ZADD', K.outbox(r[1]), int(NOW + RESEND_MS), run)
  WOKEN[#WOKEN + 1] = {run, r[1], r[2]}
end

-- The run takes its turn on its thread.
local function enter(run, thread)
  redis.call('HSET', K.run(run), 'due', '1')
  if redis.call('RPUSH', K.thread_queue(thread), run) == 1 then wake(run) end
end

-- Whether somebody executes the thread right now.
local function held(thread)
  local expiry = redis.call('ZSCORE', K.leases, thread)
  return expiry and tonumber(expiry) > NOW
end

local function release(thread)
  redis.call('DEL', K.lease(thread))
  redis.call('ZREM', K.leases, thread)
end

-- Refuse a worker whose lease on the run's thread was taken over. Returns the thread.
local function fenced(run, token)
  local thread = redis.call('HGET', K.run(run), 'thread_id')
  if not thread or redis.call('HGET', K.lease(thread), 'token') ~= token then return nil end
  return thread
end

local function refuse(run)
  return redis.error_reply('FENCED ' .. (redis.call('HGET', K.run(run), 'thread_id') or ''))
end

-- The pause a run is in: the decisions of its fully decided interrupts, whether one of those has not been
-- delivered yet, and whether a person is still asked.
local function pause_of(run)
  local open, rows, fresh, pending = {}, {}, false, false
  local ids = redis.call('LRANGE', K.run_pause(run), 0, -1)
  for _, id in ipairs(ids) do
    local a = redis.call('HMGET', K.approval(id),
      'interrupt_id', 'status', 'delivered', 'mode', 'index', 'decision', 'tool_call_id')
    if a[2] ~= 'decided' then open[a[1]] = true end
    if a[2] == 'pending' then pending = true end
    rows[#rows + 1] = {id, a[1], a[4], a[5], a[6], a[3], a[7]}
  end
  local answers = {}
  for _, row in ipairs(rows) do
    if not open[row[2]] then
      answers[#answers + 1] = row
      if row[6] == '' then fresh = true end
    end
  end
  return {answers = answers, fresh = fresh, pending = pending}
end

-- Whether the run waits for other workers than the one that asks, of that fleet and build: their graph did not
-- fit it a while ago, or it paused under a build that has workers yet.
local function not_for(run, fleet, build)
  local r = redis.call('HMGET', K.run(run), 'build', 'queue')
  if r[1] and r[1] ~= '' and r[1] ~= build and redis.call('HEXISTS', K.run_refusals(run), r[1]) == 0 then
    local seen = redis.call('ZSCORE', K.builds(r[2]), r[1])
    if seen and tonumber(seen) > NOW - ALIVE_MS then return true end
  end
  local asked_again = redis.call('HGET', K.run_refusals(run), fleet)
  return asked_again and tonumber(asked_again) > NOW
end

-- The run has found its graph, or needs none any more.
local function clear_unmatched(run)
  if redis.call('HDEL', K.run(run), 'incompatible') == 1 then
    for _, id in ipairs(redis.call('ZRANGE', K.run_approvals(run), 0, -1)) do
      redis.call('HDEL', K.approval(id), 'incompatible')
    end
  end
  redis.call('DEL', K.run_refusals(run))
end

-- A graph's fingerprint is kept for as long as a run refers to it, and past that for retries.
local function hold_graph(digest)
  redis.call('HINCRBY', K.graph(digest), 'runs', 1)
  redis.call('PERSIST', K.graph(digest))
end

local function drop_graph(digest)
  if redis.call('HINCRBY', K.graph(digest), 'runs', -1) <= 0 then
    redis.call('EXPIRE', K.graph(digest), TOMBSTONE_SECONDS)
  end
end

-- Note the graph and the build under which the run stands where it stands.
local function set_graph(run, digest, fingerprint, versions, build)
  local was = redis.call('HGET', K.run(run), 'graph')
  if was ~= digest then
    hold_graph(digest)
    if was then drop_graph(was) end
  end
  if redis.call('HEXISTS', K.graph(digest), 'fingerprint') == 0 then
    redis.call('HSET', K.graph(digest), 'fingerprint', fingerprint, 'versions', versions)
  end
  redis.call('HSET', K.run(run), 'graph', digest, 'build', build)
end

-- What became of a request's call, where the caller knows no better.
local function settle(id, outcome, reason)
  local known = redis.call('HGET', K.approval(id), 'outcome')
  if known == 'none' or known == 'started' then
    redis.call('HSET', K.approval(id), 'outcome', outcome, 'outcome_reason', reason or '')
  end
end

-- End a run, void what it still asked, and let its thread's next run go.
local function finish(run, status, reason, outcome)
  local r = redis.call('HMGET', K.run(run), 'thread_id', 'queue')
  local thread = r[1]
  for _, id in ipairs(redis.call('ZRANGE', K.run_approvals(run), 0, -1)) do
    local a = redis.call('HMGET', K.approval(id), 'status', 'delivered')
    if a[1] == 'pending' then
      settle(id, 'not_run', reason)
      set_approval(id, 'cancelled', reason)
      announce(id, 'cancelled')
    elseif a[1] == 'decided' then
      if a[2] == '' then settle(id, 'not_run', reason) else settle(id, outcome, reason) end
    end
  end
  redis.call('DEL', K.run_pause(run))
  redis.call('ZREM', K.outbox(r[2]), run)
  redis.call('ZREM', K.unmatched(r[2]), run)
  redis.call('ZREM', K.timers, run)
  clear_unmatched(run)
  local graph = redis.call('HGET', K.run(run), 'graph')
  if graph then drop_graph(graph) end
  set_status(run, status)
  redis.call('HSET', K.run(run), 'ended_at', int(NOW), 'due', '')
  redis.call('HDEL', K.run(run), 'wake_at', 'cancel_requested')
  redis.call('EXPIRE', K.run_events(run), EVENTS_KEEP_SECONDS)
  if redis.call('HGET', K.lease(thread), 'run_id') == run then release(thread) end
  -- an abnormal end may leave tool calls without a result: the next run on the thread mends that first
  if redis.call('HGET', K.thread(thread), 'last_run') == run then
    if status == 'success' then redis.call('HDEL', K.thread(thread), 'repair')
    else redis.call('HSET', K.thread(thread), 'repair', reason ~= '' and reason or status) end
  end
  local was_first = redis.call('LINDEX', K.thread_queue(thread), 0) == run
  redis.call('LREM', K.thread_queue(thread), 1, run)
  local next_run = redis.call('LINDEX', K.thread_queue(thread), 0)
  if was_first and next_run then wake(next_run) end
end

-- A run whose worker is gone (its lease ran out): say so, and make it claimable, or end it if that was asked.
-- Returns whether it goes on.
local function recover(run, lost_worker)
  local pause, again = pause_of(run), {}
  for _, id in ipairs(redis.call('ZRANGE', K.run_approvals(run), 0, -1)) do
    if redis.call('HGET', K.approval(id), 'outcome') == 'started' then again[#again + 1] = id end
  end
  local data = {lost_worker = lost_worker}
  -- calls that were approved and under way: whether they took effect is not known
  if #again > 0 then data.may_run_again = again end
  event(run, 'run.recovered', cjson.encode(data))
  local reason = redis.call('HGET', K.run(run), 'cancel_requested')
  if reason then
    finish(run, 'cancelled', reason, 'unknown')
    event(run, 'run.ended', cjson.encode({status = 'cancelled', reason = reason}))
    return false
  end
  redis.call('HSET', K.run(run), 'due', '1')
  set_status(run, pause.pending and 'interrupted' or 'pending')
  return true
end

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

-- The clock of a run's timeout stands still while the run waits for people, or for a graph that fits: it keeps
-- what is left then.
local function set_clock(run, to)
  local r = redis.call('HMGET', K.run(run), 'deadline', 'time_left', 'incompatible')
  local waits = to == 'interrupted' or (to == 'pending' and r[3])
  if waits and r[1] then
    redis.call('HSET', K.run(run), 'time_left', int(tonumber(r[1]) - NOW))
    redis.call('HDEL', K.run(run), 'deadline')
    redis.call('ZREM', K.deadlines, run)
  elseif not waits and r[2] then
    redis.call('HSET', K.run(run), 'deadline', int(NOW + r[2]))
    redis.call('HDEL', K.run(run), 'time_left')
    redis.call('ZADD', K.deadlines, int(NOW + r[2]), run)
  end
end

local function set_status(run, to)
  local r = redis.call('HMGET', K.run(run), 'status', 'created_at')
  set_clock(run, to)
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

-- A thread that has checkpoints is known by it: one whose checkpoints are gone never starts anew. While some are
-- to be taken away, none may be left.
local function note_kept(thread)
  if redis.call('EXISTS', K.checkpoint(thread)) == 1 and redis.call('HEXISTS', K.thread(thread), 'rollback') == 0 then
    redis.call('HSET', K.thread(thread), 'kept', '1')
  end
end

-- Why the thread takes nothing more, false if it does.
local function gone(thread)
  local t = redis.call('HMGET', K.thread(thread), 'deleted_at', 'expired_at', 'kept', 'rollback')
  if t[1] then return 'deleted' end
  if t[2] then return 'expired' end
  -- a rollback to before the first run leaves none
  return t[3] and not t[4] and redis.call('EXISTS', K.checkpoint(thread)) == 0 and 'lost'
end

-- One run more that has not ended: its thread is not idle.
local function opened(thread)
  redis.call('HINCRBY', K.thread(thread), 'open', 1)
  redis.call('ZREM', K.idle, thread)
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

-- A run's ledger: for each tool call {tool, tool_call_id, approval?, attempts = {number = {state, start, at, note?}}},
-- an attempt being unknown from its start until it is done or failed.
local function call_of(run, call)
  local record = redis.call('HGET', K.run_ledger(run), call)
  return record and cjson.decode(record)
end

local function save_call(run, call, record)
  redis.call('HSET', K.run_ledger(run), call, cjson.encode(record))
end

-- The run's holder may, and without a token whoever uses middleware without runs.
local function may_change_ledger(run, token)
  if token == '' then return redis.call('EXISTS', K.run(run)) == 0 end
  return fenced(run, token)
end

-- The request by which a call was let run.
local function approval_of_call(run, record)
  local found
  for _, id in ipairs(redis.call('LRANGE', K.run_pause(run), 0, -1)) do
    local a = redis.call('HMGET', K.approval(id), 'tool_call_id', 'kind', 'delivered', 'tool')
    if a[1] == record.tool_call_id and a[2] == 'tool_call' and a[3] ~= '' and a[4] == record.tool then
      if found then return nil end -- of two agents that gave their calls the same id
      found = id
    end
  end
  return found
end

-- Calls that were under way in a worker that is gone: what their requests came to is unknown from here on.
local function doubt(run)
  local calls, approvals = {}, {}
  for _, field in ipairs(redis.call('HKEYS', K.run_ledger(run))) do
    if not string.find(field, ':', 1, true) then
      local record = call_of(run, field)
      for _, attempt in pairs(record.attempts) do
        if attempt.state == 'unknown' and not attempt.note then
          calls[#calls + 1] = {tool = record.tool, tool_call_id = record.tool_call_id}
          if record.approval then
            approvals[#approvals + 1] = record.approval
            redis.call('HSET', K.approval(record.approval), 'outcome', 'unknown')
          end
        end
      end
    end
  end
  return calls, approvals
end

-- Failed attempts are made again after a retry; the others close up.
local function forget_failures(run)
  local ledger = K.run_ledger(run)
  for _, call in ipairs(redis.call('HKEYS', ledger)) do
    if not string.find(call, ':', 1, true) then
      local record, numbers, kept = call_of(run, call), {}, {}
      for n in pairs(record.attempts) do numbers[#numbers + 1] = tonumber(n) end
      table.sort(numbers)
      local to = 0
      for _, n in ipairs(numbers) do
        local attempt, field = record.attempts[int(n)], call .. ':' .. int(n)
        local payload = redis.call('HGET', ledger, field)
        redis.call('HDEL', ledger, field)
        if attempt.state ~= 'failed' then
          to = to + 1
          kept[int(to)] = attempt
          if payload then redis.call('HSET', ledger, call .. ':' .. int(to), payload) end
        end
      end
      record.attempts = kept
      save_call(run, call, record)
    end
  end
end

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
  redis.call('ZREM', K.deadlines, run)
  redis.call('HSET', K.run(run), 'ended_at', int(NOW), 'due', '', 'reason', reason)
  redis.call('HDEL', K.run(run), 'wake_at', 'stop', 'stop_reason', 'deadline', 'time_left')
  redis.call('EXPIRE', K.run_events(run), EVENTS_KEEP_SECONDS)
  -- a run that failed can be retried, and then needs to know what it did
  if status == 'success' or status == 'cancelled' then redis.call('UNLINK', K.run_ledger(run)) end
  redis.call('ZADD', K.ended, int(NOW), run)
  if redis.call('HINCRBY', K.thread(thread), 'open', -1) <= 0 then redis.call('ZADD', K.idle, int(NOW), thread) end
  note_kept(thread)
  if redis.call('HGET', K.lease(thread), 'run_id') == run then release(thread) end
  -- an abnormal end may leave tool calls without a result: the next run on the thread mends that first
  if redis.call('HGET', K.thread(thread), 'last_run') == run then
    if status == 'success' then redis.call('HDEL', K.thread(thread), 'repair')
    else redis.call('HSET', K.thread(thread), 'repair', reason ~= '' and reason or status) end
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
  redis.call('HDEL', K.thread(thread), 'repair', 'rollback')
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

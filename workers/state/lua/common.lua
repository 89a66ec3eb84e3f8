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
  redis.call('ZREM', K.timers, run)
  set_status(run, status)
  redis.call('HSET', K.run(run), 'ended_at', int(NOW), 'due', '')
  redis.call('HDEL', K.run(run), 'wake_at', 'cancel_requested')
  redis.call('EXPIRE', K.run_events(run), EVENTS_KEEP_SECONDS)
  -- a run that failed can be retried, and then needs to know what it did
  if status == 'success' or status == 'cancelled' then redis.call('DEL', K.run_ledger(run)) end
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
  local pause = pause_of(run)
  local calls, again = doubt(run)
  -- what no ledger tells of: questions whose answer was handed over
  for _, id in ipairs(redis.call('ZRANGE', K.run_approvals(run), 0, -1)) do
    if redis.call('HGET', K.approval(id), 'outcome') == 'started' then again[#again + 1] = id end
  end
  local data = {lost_worker = lost_worker}
  -- requests whose calls were under way: whether they took effect is not known
  if #again > 0 then data.may_run_again = again end
  if #calls > 0 then data.unknown_calls = calls end
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

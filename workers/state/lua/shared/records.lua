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
  local t = redis.call('HMGET', K.thread(thread), 'deleted_at', 'expired_at', 'kept')
  if t[1] then return 'deleted' end
  if t[2] then return 'expired' end
  return t[3] and redis.call('EXISTS', K.checkpoint(thread)) == 0 and 'lost'
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

-- What became of a request's call, where the caller knows no better.
local function settle(id, outcome, reason)
  local known = redis.call('HGET', K.approval(id), 'outcome')
  if known == 'none' or known == 'started' then
    redis.call('HSET', K.approval(id), 'outcome', outcome, 'outcome_reason', reason or '')
    announce(id, 'outcome')
  end
end

-- What its worker says of it: an approved call that did not run was refused by a limit.
local function came_to(id, outcome) settle(id, outcome, outcome == 'not_run' and 'limited' or '') end

-- ARGV: run id, owner, lease in ms, most attempts, pid, most deaths, the worker's fleet and build
-- Gives the thread's lease if there is something to do for the run and nobody does it.
local run, owner, lease_ms, max_attempts, pid = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4]), ARGV[5]
stop_late(run)
local max_deaths = tonumber(ARGV[6])
local r = redis.call('HMGET', K.run(run), 'status', 'thread_id', 'queue', 'wake_at', 'attempt', 'due', 'progressed')
local status, thread = r[1], r[2]
if not status then return {'missing', WOKEN} end
local function no(why)
  redis.call('ZREM', K.outbox(r[3]), run)
  return {why, WOKEN}
end
if status == 'success' or status == 'error' or status == 'timeout' or status == 'cancelled' then
  return no('ended')
end
if redis.call('LINDEX', K.thread_queue(thread), 0) ~= run then return no('queued') end
if held(thread) then return no('busy') end
local pause = pause_of(run)
local timer_due = r[4] and tonumber(r[4]) <= NOW
local crashed = status == 'running'
if crashed and not recover(run, thread) then return {'ended', WOKEN} end
if not (crashed or r[6] == '1' or pause.fresh or timer_due) then return no('waiting') end
if not_for(run, ARGV[7], ARGV[8]) then
  redis.call('ZADD', K.unmatched(r[3]), 'NX', int(NOW), run)
  return no('unmatched')
end
local attempt = (r[7] == '1' and 0 or tonumber(r[5])) + 1
note_kept(thread)
if gone(thread) then
  strand(run, thread, pid)
  return {'ended', WOKEN}
end
local d = redis.call('HMGET', K.run(run), 'deaths', 'lost_workers')
local deaths = tonumber(d[1] or '0')
if attempt > max_attempts or deaths >= max_deaths then
  local died = int(deaths) .. (deaths == 1 and ' worker' or ' workers') .. ' died while executing it'
  local message = attempt > max_attempts and 'no progress in ' .. int(max_attempts) .. ' attempts: '
    .. (deaths > 0 and died or 'it was given back each time') or died
  redis.call('HSET', K.run(run), 'error', cjson.encode({type = 'TooManyAttempts', node = cjson.null,
    message = message .. (d[2] and ', the last first: ' .. d[2] or '')}))
  finish(run, 'error', 'too many attempts', 'unknown')
  event(run, 'run.ended', cjson.encode({status = 'error'}))
  return {'ended', WOKEN}
end
-- Who killed the worker is not known where several runs were on it. The fewer chances a run has left, the fewer
-- others that have outlived a worker may be beside it, down to none in its last: that one can only blame itself.
local function room(its_attempt, its_deaths)
  return 8 ^ math.max(0, math.min(max_attempts - its_attempt, max_deaths - its_deaths - 1))
end
if deaths > 0 then
  local most, company = room(attempt, deaths), 1
  for _, other in ipairs(redis.call('SMEMBERS', K.suspects(owner))) do
    local o = redis.call('HMGET', K.run(other), 'status', 'worker', 'updated_at', 'attempt', 'deaths')
    if o[1] == 'running' and o[2] == owner and NOW - tonumber(o[3]) < SUSPECT_MS then
      company = company + 1
      most = math.min(most, room(tonumber(o[4]), tonumber(o[5])))
    else redis.call('SREM', K.suspects(owner), other) end
  end
  if company > most then
    redis.call('HSET', K.run(run), 'sends', '0')
    redis.call('ZADD', K.outbox(r[3]), int(NOW + RESEND_MS), run)
    return {'crowded', WOKEN}
  end
  redis.call('SADD', K.suspects(owner), run)
  redis.call('EXPIRE', K.suspects(owner), 3600)
end
local token = int(math.max(tonumber(redis.call('GET', K.fence) or '0') + 1, NOW))
redis.call('SET', K.fence, token)
redis.call('DEL', K.lease(thread))
redis.call('HSET', K.lease(thread), 'token', token, 'run_id', run, 'owner', owner)
redis.call('ZADD', K.leases, int(NOW + lease_ms), thread)
redis.call('ZREM', K.outbox(r[3]), run)
redis.call('ZREM', K.unmatched(r[3]), run)
redis.call('ZREM', K.timers, run)
redis.call('HDEL', K.run(run), 'wake_at', 'due', 'progressed')
redis.call('HSET', K.run(run), 'attempt', int(attempt), 'worker', owner)
redis.call('HSETNX', K.run(run), 'started_at', int(NOW))
local segment = redis.call('HINCRBY', K.run(run), 'segment', 1)
redis.call('HSET', K.thread(thread), 'last_run', run)
set_status(run, 'running')
local clock = redis.call('HMGET', K.run(run), 'timeout_ms', 'deadline')
if clock[1] and not clock[2] then
  redis.call('HSET', K.run(run), 'deadline', int(NOW + clock[1]))
  redis.call('ZADD', K.deadlines, int(NOW + clock[1]), run)
end
for _, row in ipairs(pause.answers) do
  local kind = cjson.decode(row[5]).type
  if kind == 'reject' then settle(row[1], 'not_run', 'rejected')
  elseif kind == 'respond' then settle(row[1], 'not_run', 'responded')
  -- a tool call starts when the ledger says so
  elseif redis.call('HGET', K.approval(row[1]), 'kind') ~= 'tool_call' then
    redis.call('HSET', K.approval(row[1]), 'outcome', 'started')
  end
  redis.call('HSET', K.approval(row[1]), 'delivered', token)
end
-- one that waits for a matching graph goes on once that is found: it may be asked many times
if redis.call('HEXISTS', K.run(run), 'incompatible') == 0 then
  event(run, segment == 1 and 'run.started' or 'run.resumed',
    cjson.encode({segment = segment, worker = owner}), int(attempt), pid)
end
local left = redis.call('HMGET', K.thread(thread), 'repair', 'repair_run', 'rollback')
-- the input, which may be megabytes, is in the thread once the run has paused
local skip = redis.call('HGET', K.run(run), 'progress') ~= '' and 'input'
local names, record = {}, {}
for _, name in ipairs(redis.call('HKEYS', K.run(run))) do
  if name ~= skip then names[#names + 1] = name end
end
for i, value in ipairs(redis.call('HMGET', K.run(run), unpack(names))) do
  record[2 * i - 1], record[2 * i] = names[i], value
end
-- nobody but the one who claims writes to the thread now; it reads anew what it has mended
local found = (left[1] or left[3]) and {} or {saved(K.checkpoint(thread), '', '')}
return {'claimed', token, record, pause.answers, left[1] or '', left[2] or '', left[3] or '[]', found, WOKEN}

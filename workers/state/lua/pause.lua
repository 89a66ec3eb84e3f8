-- ARGV: run id, token, pid, checkpoint id, wake_at (ms or ''), event data,
--       JSON: requests [{field = text}], JSON: outcomes {approval id = outcome}, why requests are reopened,
--       the graph's digest, fingerprint and versions (JSON), the worker's build, what it sleeps for
-- Ends a segment in a pause. A request that is asked already keeps its state; one that is asked no more is
-- superseded; an answer that came in meanwhile sends the run straight back.
local run, token, pid, checkpoint, wake_at = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local thread = fenced(run, token)
if not thread then return refuse(ARGV[1]) end
local requests, outcomes, why = cjson.decode(ARGV[7]), cjson.decode(ARGV[8]), ARGV[9]
local function reopen(id, reason)
  redis.call('HSET', K.approval(id), 'decision', '', 'decided_by', '', 'decided_at', '', 'delivered', '',
    'outcome', 'none', 'outcome_reason', '')
  set_approval(id, 'pending', reason)
  announce(id, 'reopened')
end
local asked, was, doubtful = {}, {}, false
for _, request in ipairs(requests) do
  asked[request.id] = true
  doubtful = doubtful or request.kind == 'unknown_call'
end
for id, outcome in pairs(outcomes) do came_to(id, outcome) end
-- nobody is to be asked for a run that is to stop
stop_late(run)
local ended = stopped(run, pid)
if ended then return {ended, WOKEN} end
for _, id in ipairs(redis.call('LRANGE', K.run_pause(run), 0, -1)) do
  was[id] = true
  local a = redis.call('HMGET', K.approval(id), 'status', 'delivered', 'kind')
  if not asked[id] then
    if a[1] == 'pending' then
      settle(id, 'not_run', 'superseded')
      set_approval(id, 'superseded', 'the run went on without it')
      announce(id, 'superseded')
    elseif a[2] == '' then settle(id, 'not_run', 'superseded')
    -- a call whose result was not seen may still wait for the others that the model made with it
    -- of what an answer led to nobody knows whether it ended, if that is what is asked now
    elseif a[3] ~= 'tool_call' then settle(id, doubtful and 'unknown' or 'succeeded') end
  elseif a[1] == 'decided' and a[2] == token then
    -- its answer was handed over and the graph asks again: it was not taken
    reopen(id, why)
    event(run, 'approval.reopened', cjson.encode({approval_id = id, reason = why}), nil, pid)
  end
end
redis.call('DEL', K.run_pause(run))
local r = redis.call('HMGET', K.run(run), 'agent', 'principal')
for _, request in ipairs(requests) do
  local id = request.id
  local status = redis.call('HGET', K.approval(id), 'status')
  if not status then
    for field, text in pairs(request) do redis.call('HSET', K.approval(id), field, text) end
    redis.call('HSET', K.approval(id), 'run_id', run, 'thread_id', thread, 'agent', r[1],
      'status', 'pending', 'outcome', 'none', 'delivered', '', 'created_at', int(NOW))
    if r[2] then redis.call('HSET', K.approval(id), 'principal', r[2]) end
    redis.call('ZADD', K.approvals, int(NOW), id)
    redis.call('ZADD', K.approvals_in('pending'), int(NOW), id)
    redis.call('ZADD', K.run_approvals(run), int(NOW), id)
    announce(id, 'requested')
  elseif not was[id] then
    -- the same question in a later pause, after a retry: an old answer does not count
    reopen(id, 'asked again')
  end
  redis.call('RPUSH', K.run_pause(run), id)
end
local pause = pause_of(run)
set_status(run, pause.pending and 'interrupted' or 'pending')
event(run, #requests > 0 and 'run.interrupted' or 'run.parked', ARGV[6], nil, pid)
-- a stream's last block is made 4 KB at once, to grow into; a copy has what it holds, for as long as the run waits
if redis.call('XLEN', K.run_events(run)) < 100 then
  redis.call('COPY', K.run_events(run), K.run_events_copy, 'REPLACE')
  redis.call('RENAME', K.run_events_copy, K.run_events(run))
end
redis.call('HSET', K.run(run), 'attempt', '0', 'progress', checkpoint)
-- what only counts while it is executed or on its way: each field takes some 50 bytes for as long as the run waits
redis.call('HDEL', K.run(run), 'due', 'progressed', 'batch', 'sends')
set_graph(run, ARGV[10], ARGV[11], ARGV[12], ARGV[13])
release(thread)
note_kept(thread)
if wake_at ~= '' then
  redis.call('HSET', K.run(run), 'wake_at', wake_at, 'sleeps', ARGV[14])
  redis.call('ZADD', K.timers, wake_at, run)
end
if pause.fresh or (wake_at ~= '' and tonumber(wake_at) <= NOW) then wake(run) end
return {'paused', WOKEN}

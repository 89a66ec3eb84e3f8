-- ARGV: reviewer, pid, then approval id/digest that was checked/decision (JSON)/its type quadruples
-- First decision wins; several are saved together or not at all. Gives the requests as they are then.
local reviewer, pid = ARGV[1], ARGV[2]
local lost
for i = 3, #ARGV, 4 do
  local a = redis.call('HMGET', K.approval(ARGV[i]), 'status', 'digest', 'decided_by', 'decision', 'reason',
    'run_id', 'thread_id')
  if not a[1] then return {'missing', ARGV[i], WOKEN} end
  if a[1] == 'decided' then return {'decided', ARGV[i], a[3], cjson.decode(a[4]).type, WOKEN} end
  if a[1] ~= 'pending' then return {'not_pending', ARGV[i], a[1], a[5], WOKEN} end
  if a[2] ~= ARGV[i + 1] then return {'changed', ARGV[i], WOKEN} end
  -- a segment under way has the thread in its memory and writes it again
  if not held(a[7]) and gone(a[7]) then lost = {a[6], a[7]} end
end
if lost then
  strand(lost[1], lost[2], pid)
  return {'gone', lost[2], 'lost', WOKEN}
end
local runs = {}
for i = 3, #ARGV, 4 do
  local id = ARGV[i]
  local a = redis.call('HMGET', K.approval(id), 'run_id', 'kind', 'thread_id')
  redis.call('HSET', K.approval(id), 'decision', ARGV[i + 2], 'decided_by', reviewer, 'decided_at', int(NOW))
  set_approval(id, 'decided', '')
  announce(id, 'decided')
  event(a[1], 'approval.decided',
    cjson.encode({approval_id = id, decision = ARGV[i + 3], reviewer = reviewer}), nil, pid)
  runs[a[1]] = {thread = a[3], stop = (runs[a[1]] or {}).stop or (a[2] == 'breakpoint' and ARGV[i + 3] == 'reject')}
end
for run, what in pairs(runs) do
  if what.stop then
    stop(run, 'cancel', 'rejected at a breakpoint by ' .. reviewer, pid)
  elseif not held(what.thread) then
    local pause = pause_of(run)
    if redis.call('HGET', K.run(run), 'status') == 'interrupted' and not pause.pending then
      set_status(run, 'pending')
    end
    if pause.fresh then wake(run) end
  end
end
local records = {}
for i = 3, #ARGV, 4 do records[#records + 1] = redis.call('HGETALL', K.approval(ARGV[i])) end
return {'saved', records, WOKEN}

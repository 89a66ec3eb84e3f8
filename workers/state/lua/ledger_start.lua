-- ARGV: run id, token or '', call, attempt, the start that is done again or 0, tool, tool call id, who starts it
-- Marks an attempt as started, unless it was before: then it says what is known of it. A call that was never
-- started is progress.
local run, call, n = ARGV[1], ARGV[3], ARGV[4]
if not may_change_ledger(run, ARGV[2]) then return refuse(run) end
local record = call_of(run, call)
if not record then
  record = {tool = ARGV[6], tool_call_id = ARGV[7], attempts = {}}
  if ARGV[2] ~= '' then redis.call('HSET', K.run(run), 'progressed', '1') end
end
local attempt = record.attempts[n]
if attempt and attempt.by == ARGV[8] then return {'new', int(attempt.start), '', '', '0'} end -- its reply was lost
if attempt and int(attempt.start) ~= ARGV[5] then
  local payload = redis.call('HGET', K.run_ledger(run), call .. ':' .. n) or ''
  local open = attempt.state == 'unknown' and not attempt.note
  return {attempt.state, int(attempt.start), payload, attempt.note or '', open and int(attempt.at) or '0'}
end
record.attempts[n] = {state = 'unknown', start = (attempt and attempt.start or 0) + 1, at = int(NOW),
  by = ARGV[8]}
record.approval = record.approval or approval_of_call(run, record)
save_call(run, call, record)
redis.call('HDEL', K.run_ledger(run), call .. ':' .. n)
if record.approval then redis.call('HSET', K.approval(record.approval), 'outcome', 'started') end
return {'new', int(record.attempts[n].start), '', '', '0'}

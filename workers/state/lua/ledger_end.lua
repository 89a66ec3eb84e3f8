-- ARGV: run id, token or '', call, attempt, start, state, payload, note, outcome
local run, call, n = ARGV[1], ARGV[3], ARGV[4]
if not may_change_ledger(run, ARGV[2]) then return refuse(run) end
local record = call_of(run, call)
local attempt = record and record.attempts[n]
if not attempt or int(attempt.start) ~= ARGV[5] then return {'stale'} end
attempt.state, attempt.note, attempt.at = ARGV[6], ARGV[8] ~= '' and ARGV[8] or nil, int(NOW)
save_call(run, call, record)
if ARGV[7] ~= '' then redis.call('HSET', K.run_ledger(run), call .. ':' .. n, ARGV[7]) end
if record.approval then
  redis.call('HSET', K.approval(record.approval), 'outcome', ARGV[9])
  announce(record.approval, 'outcome')
end
return {'ended'}

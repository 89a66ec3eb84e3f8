-- ARGV: run id, token or '', call, attempt, start
local run, call, n = ARGV[1], ARGV[3], ARGV[4]
if not may_change_ledger(run, ARGV[2]) then return refuse(run) end
local record = call_of(run, call)
local attempt = record and record.attempts[n]
if not attempt or int(attempt.start) ~= ARGV[5] then return {'stale'} end
record.attempts[n] = nil
save_call(run, call, record)
return {'withdrawn'}

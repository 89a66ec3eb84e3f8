-- ARGV: run id, token or '', name, the verdict that is kept unless there is one, or ''
local run, field = ARGV[1], 'verdict:' .. ARGV[3]
if not may_change_ledger(run, ARGV[2]) then return refuse(run) end
if ARGV[4] ~= '' then redis.call('HSETNX', K.run_ledger(run), field, ARGV[4]) end
return {redis.call('HGET', K.run_ledger(run), field) or ''}

-- ARGV: run id, token or '', key, place or '' to ask. Returns the place of the model that the run stays with.
local run, field = ARGV[1], 'model:' .. ARGV[3]
if not may_change_ledger(run, ARGV[2]) then return refuse(run) end
if ARGV[4] ~= '' then redis.call('HSET', K.run_tries(run), field, ARGV[4]) end
return {tonumber(redis.call('HGET', K.run_tries(run), field) or '0')}

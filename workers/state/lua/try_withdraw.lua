-- ARGV: run id, token or '', key, number
local run, key = ARGV[1], ARGV[3]
if not may_change_ledger(run, ARGV[2]) then return refuse(run) end
local text = redis.call('HGET', K.run_tries(run), key)
local try = text and cjson.decode(text)
if not try or not try.running or int(try.number) ~= ARGV[4] then return {'stale'} end
try.running, try.number = false, try.number - 1
redis.call('HSET', K.run_tries(run), key, cjson.encode(try))
return {'withdrawn'}

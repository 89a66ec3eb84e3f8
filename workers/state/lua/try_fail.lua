-- ARGV: run id, token or '', key, number, ms until the next attempt is due, the ledger's failed attempts
-- Returns as try_start.lua.
local run, key = ARGV[1], ARGV[3]
if not may_change_ledger(run, ARGV[2]) then return refuse(run) end
local try = cjson.decode(redis.call('HGET', K.run_tries(run), key))
if try.running and int(try.number) == ARGV[4] then
  try.running, try.due, try.passed = false, NOW + ARGV[5], tonumber(ARGV[6])
  try.waited = try.waited + ARGV[5]
  redis.call('HSET', K.run_tries(run), key, cjson.encode(try))
end
return {int(try.number), int(math.max(0, try.due - NOW)), int(try.due), int(try.waited), int(try.passed)}

-- ARGV: run id, token or '', key, '1' if a start that came to no end counts, who starts it
-- Counts and starts the next attempt if it is due. Returns its number, ms until it is due, when, what its waits
-- come to, the ledger's failed attempts.
local run, key = ARGV[1], ARGV[3]
if not may_change_ledger(run, ARGV[2]) then return refuse(run) end
local text = redis.call('HGET', K.run_tries(run), key)
local try = text and cjson.decode(text) or {number = 0, due = 0, waited = 0, passed = 0, running = false}
local wait = math.max(0, try.due - NOW)
if wait == 0 and try.by ~= ARGV[5] then -- or else its reply was lost
  if ARGV[4] == '1' or not try.running then try.number = try.number + 1 end
  try.running, try.by, try.due = true, ARGV[5], 0
  redis.call('HSET', K.run_tries(run), key, cjson.encode(try))
end
return {int(try.number), int(wait), int(try.due), int(try.waited), int(try.passed)}

-- ARGV: run id, token, pid, status, result (JSON or ''), error (JSON or ''), reason, JSON: outcomes {id = outcome}
local run, token, pid, status = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
if not fenced(run, token) then return refuse(ARGV[1]) end
local reason = ARGV[7]
for id, outcome in pairs(cjson.decode(ARGV[8])) do came_to(id, outcome) end
-- a run that somebody was told is being stopped never ends as anything else
local asked = stopped(run, pid)
if asked then return {asked, WOKEN} end
if status == 'success' then redis.call('HSET', K.run(run), 'result', ARGV[5]) end
if status == 'error' or status == 'timeout' then redis.call('HSET', K.run(run), 'error', ARGV[6]) end
finish(run, status, reason, status == 'success' and 'succeeded' or 'unknown')
event(run, 'run.ended', cjson.encode({status = status, reason = reason}), nil, pid)
return {status, WOKEN}

-- ARGV: run id, token, pid, the graph's digest, fingerprint and versions (JSON), the worker's build
-- The run goes on in a graph that is not the one it was left by, and was found to fit.
local run, token = ARGV[1], ARGV[2]
if not fenced(run, token) then return refuse(run) end
set_graph(run, ARGV[4], ARGV[5], ARGV[6], ARGV[7])
local r = redis.call('HMGET', K.run(run), 'incompatible', 'segment', 'worker', 'attempt')
if r[1] then
  event(run, r[2] == '1' and 'run.started' or 'run.resumed',
    cjson.encode({segment = tonumber(r[2]), worker = r[3]}), r[4], ARGV[3])
  clear_unmatched(run)
end
return {'matched', WOKEN}

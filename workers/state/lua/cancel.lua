-- ARGV: run id, reason, pid
local run, reason = ARGV[1], ARGV[2]
if redis.call('EXISTS', K.run(run)) == 0 then return {'missing', WOKEN} end
if redis.call('HEXISTS', K.run(run), 'ended_at') == 1 then return {'ended', WOKEN} end
return {stop(run, 'cancel', reason, ARGV[3]), WOKEN}

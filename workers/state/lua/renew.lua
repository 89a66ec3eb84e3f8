-- ARGV: lease in ms, then run id/token pairs. Returns the runs whose lease is lost and those that are to stop.
local lost, stopping = {}, {}
for i = 2, #ARGV, 2 do
  local run = ARGV[i]
  local thread = fenced(run, ARGV[i + 1])
  if not thread then lost[#lost + 1] = run
  else
    redis.call('ZADD', K.leases, int(NOW + ARGV[1]), thread)
    if redis.call('HGET', K.run(run), 'stop') then stopping[#stopping + 1] = run end
  end
end
return {lost, stopping}

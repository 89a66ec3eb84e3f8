-- What graph and build a run is with, and whether it waits for other ones.

-- Whether the run waits for other workers than the one that asks, of that fleet and build: their graph did not
-- fit it a while ago, or it paused under a build that has workers yet.
local function not_for(run, fleet, build)
  local r = redis.call('HMGET', K.run(run), 'build', 'queue')
  if r[1] and r[1] ~= '' and r[1] ~= build and redis.call('HEXISTS', K.run_refusals(run), r[1]) == 0 then
    local seen = redis.call('ZSCORE', K.builds(r[2]), r[1])
    if seen and tonumber(seen) > NOW - ALIVE_MS then return true end
  end
  local asked_again = redis.call('HGET', K.run_refusals(run), fleet)
  return asked_again and tonumber(asked_again) > NOW
end

-- The run has found its graph, or needs none any more.
local function clear_unmatched(run)
  if redis.call('HDEL', K.run(run), 'incompatible') == 1 then
    for _, id in ipairs(redis.call('ZRANGE', K.run_approvals(run), 0, -1)) do
      redis.call('HDEL', K.approval(id), 'incompatible')
    end
  end
  redis.call('DEL', K.run_refusals(run))
end

-- A graph's fingerprint is kept for as long as a run refers to it, and past that for retries.
local function hold_graph(digest)
  redis.call('HINCRBY', K.graph(digest), 'runs', 1)
  redis.call('PERSIST', K.graph(digest))
end

local function drop_graph(digest)
  if redis.call('HINCRBY', K.graph(digest), 'runs', -1) <= 0 then
    redis.call('EXPIRE', K.graph(digest), TOMBSTONE_SECONDS)
  end
end

-- Note the graph and the build under which the run stands where it stands.
local function set_graph(run, digest, fingerprint, versions, build)
  local was = redis.call('HGET', K.run(run), 'graph')
  if was ~= digest then
    hold_graph(digest)
    if was then drop_graph(was) end
  end
  if redis.call('HEXISTS', K.graph(digest), 'fingerprint') == 0 then
    redis.call('HSET', K.graph(digest), 'fingerprint', fingerprint, 'versions', versions)
  end
  redis.call('HSET', K.run(run), 'graph', digest, 'build', build)
end

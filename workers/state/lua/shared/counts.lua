-- What calls add up to: `run:NAME` in a run's hash and, beside it, `thread:NAME`, the run's part of its thread's
-- count.

-- A run whose checkpoints are taken away leaves nothing in its thread's counts either.
local function uncount(run, thread)
  local flat = redis.call('HGETALL', K.run_counts(run))
  for i = 1, #flat, 2 do
    if string.sub(flat[i], 1, 7) == 'thread:' then
      redis.call('HINCRBY', K.thread_counts(thread), string.sub(flat[i], 8), -flat[i + 1])
    end
  end
  redis.call('DEL', K.run_counts(run))
end

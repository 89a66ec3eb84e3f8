-- ARGV: run id, token or '', thread id where there is no run, the call's own id ('': only look), waiter, then for
--       each count scope, key, limit or '', window in ms, '1' if a call without room waits
-- Counts a call everywhere or nowhere. Returns its state, when one that waits is due, the counts, which are full.
local run, thread, id, waiter = ARGV[1], ARGV[3], ARGV[4], ARGV[5]
local by_hand = ARGV[2] == ''
if not may_change_ledger(run, ARGV[2]) then return refuse(run) end
if not by_hand then thread = redis.call('HGET', K.run(run), 'thread_id') end
if id ~= '' and redis.call('EXISTS', K.counted(id)) == 1 then return {'counted', '0', {}, {}} end -- its reply was lost
local counts, values, full, refused, waits = {}, {}, {}, false, false
for i = 6, #ARGV, 5 do
  local c = {scope = ARGV[i], key = ARGV[i + 1], limit = tonumber(ARGV[i + 2]), per = tonumber(ARGV[i + 3])}
  local value, is_full
  if c.scope == 'window' then
    c.calls, c.line = K.window_calls(c.key), K.window_line(c.key)
    local first = redis.call('LINDEX', c.calls, 0)
    while first and tonumber(first) <= NOW - c.per do
      redis.call('LPOP', c.calls)
      first = redis.call('LINDEX', c.calls, 0)
    end
    redis.call('ZREMRANGEBYSCORE', c.line, '-inf', int(NOW - GRACE_MS))
    value = redis.call('LLEN', c.calls)
    -- places that have come free are kept for those whose turn it is
    c.mine = tonumber(redis.call('ZSCORE', c.line, waiter) or nil)
    local ahead = redis.call('ZCOUNT', c.line, '-inf', c.mine and '(' .. int(c.mine) or int(NOW))
    is_full = (c.mine and c.mine > NOW) or value + ahead >= c.limit
  else
    value = tonumber(redis.call('HGET', c.scope == 'run' and K.run_counts(run) or K.thread_counts(thread),
      c.scope == 'run' and 'run:' .. c.key or c.key) or '0')
    is_full = c.limit and value >= c.limit
  end
  c.value, c.full = value, is_full
  counts[#counts + 1], values[#values + 1], full[#full + 1] = c, int(value), is_full and '1' or ''
  if is_full then
    if ARGV[i + 4] == '1' then waits = true else refused = true end
  end
end
if id == '' then return {'', '0', values, full} end
if refused then return {'refused', '0', values, full} end
if waits then
  local due = 0
  for _, c in ipairs(counts) do
    if c.full then
      if not (c.mine and c.mine > NOW) then
        redis.call('ZREM', c.line, waiter)
        -- each that waits takes the next place to come free: a call's, or one of those that wait before it
        local place = redis.call('ZCARD', c.line) - (c.limit - c.value)
        local opens = redis.call('LINDEX', c.calls, place)
          or redis.call('ZRANGE', c.line, place - c.value, place - c.value, 'WITHSCORES')[2]
        c.mine = tonumber(opens) + c.per
        redis.call('ZADD', c.line, int(c.mine), waiter)
        local last = redis.call('ZRANGE', c.line, -1, -1, 'WITHSCORES')[2]
        redis.call('PEXPIREAT', c.line, int(tonumber(last) + GRACE_MS))
      end
      due = math.max(due, c.mine)
    end
  end
  return {'waits', int(due), values, full}
end
for _, c in ipairs(counts) do
  if c.scope == 'window' then
    redis.call('RPUSH', c.calls, int(NOW))
    redis.call('PEXPIRE', c.calls, int(c.per))
    redis.call('ZREM', c.line, waiter)
  elseif c.scope == 'run' then
    redis.call('HINCRBY', K.run_counts(run), 'run:' .. c.key, 1)
  else
    redis.call('HINCRBY', K.thread_counts(thread), c.key, 1)
    redis.call('HINCRBY', K.run_counts(run), 'thread:' .. c.key, 1)
  end
end
if by_hand then redis.call('EXPIRE', K.run_counts(run), TOMBSTONE_SECONDS) end
redis.call('SET', K.counted(id), '1', 'EX', 60)
return {'counted', '0', values, full}

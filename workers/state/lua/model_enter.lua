-- ARGV: run id, token or '', model, threshold, cool-down in ms, call
-- Says whether a call of the model may be made: '1' or ''. A breaker without a record is closed.
if not may_change_ledger(ARGV[1], ARGV[2]) then return refuse(ARGV[1]) end
local key, trial = K.breaker(ARGV[3]), 'trial:' .. ARGV[6]
local circuit, under_way = {}, 0
local flat = redis.call('HGETALL', key)
if #flat == 0 then return {'1'} end
-- A trial is under way for a cool-down, and as long after it as its worker holds the thread.
local function under_way_still(value)
  local till, token, run = string.match(value, '^(%d+)%s?(%d*)%s?(.*)$')
  if tonumber(till) > NOW then return true end
  local thread = token ~= '' and redis.call('HGET', K.run(run), 'thread_id')
  return thread and held(thread) and redis.call('HGET', K.lease(thread), 'token') == token
end
for i = 1, #flat, 2 do
  local field, value = flat[i], flat[i + 1]
  if string.sub(field, 1, 6) ~= 'trial:' then circuit[field] = tonumber(value)
  elseif under_way_still(value) then
    circuit[field] = true
    under_way = under_way + 1
  else redis.call('HDEL', key, field) end
end
if circuit[trial] then return {'1'} end -- its reply was lost
local most = circuit.open_until and 1 or ARGV[4] - circuit.failures
if (circuit.open_until or 0) > NOW or under_way >= most then return {''} end
redis.call('HSET', key, trial, int(NOW + ARGV[5]) .. ' ' .. ARGV[2] .. ' ' .. ARGV[1])
return {'1'}

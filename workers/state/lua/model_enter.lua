-- ARGV: run id, token or '', model, threshold, cool-down in ms, call
-- Says whether a call of the model may be made: '1' or ''. A breaker without a record is closed.
if not may_change_ledger(ARGV[1], ARGV[2]) then return refuse(ARGV[1]) end
local key, trial = K.breaker(ARGV[3]), 'trial:' .. ARGV[6]
local circuit, under_way = {}, 0
local flat = redis.call('HGETALL', key)
if #flat == 0 then return {'1'} end
for i = 1, #flat, 2 do
  local field, value = flat[i], tonumber(flat[i + 1])
  circuit[field] = value
  if string.sub(field, 1, 6) == 'trial:' then
    if value > NOW then under_way = under_way + 1 else redis.call('HDEL', key, field) end
  end
end
if circuit[trial] then return {'1'} end -- its reply was lost
local most = circuit.open_until and 1 or ARGV[4] - circuit.failures
if (circuit.open_until or 0) > NOW or under_way >= most then return {''} end
redis.call('HSET', key, trial, int(NOW + ARGV[5]))
return {'1'}

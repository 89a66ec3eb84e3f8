-- the pending writes of the checkpoint at namespace and id, each after its name
local function pending(key, at)
  local packed = redis.call('HGET', key, 'p\31' .. at)
  local writes = packed and cmsgpack.unpack(packed) or {}
  for i = 2, #writes, 2 do
    if writes[i] == '' then writes[i] = redis.call('HGET', key, 'w\31' .. at .. '\31' .. writes[i - 1]) end
  end
  return writes
end

-- the checkpoint of that id in the thread's hash, '' for the latest: its id, record, channels and their blobs, the
-- list elements in that order, the writes after their names; false where there is none
local function saved(key, ns, id)
  if id == '' then id = redis.call('HGET', key, 'i\31' .. ns) end
  local record = id and redis.call('HGET', key, 'c\31' .. ns .. '\31' .. id)
  if not record then return false end

  local function fetch(fields)
    local values = {}
    for from = 1, #fields, 1000 do
      local some = redis.call('HMGET', key, unpack(fields, from, math.min(from + 999, #fields)))
      for i = 1, #some do values[#values + 1] = some[i] end
    end
    return values
  end

  local channels, elements = {}, {}
  for channel, version in pairs(head(record)[3]) do
    local blob = redis.call('HGET', key, 'b\31' .. ns .. '\31' .. channel .. '\31' .. version)
    channels[#channels + 1] = channel
    channels[#channels + 1] = blob
    if blob and string.sub(blob, 1, 1) == 'L' then
      for at = 2, #blob, 16 do elements[#elements + 1] = 'e\31' .. string.sub(blob, at, at + 15) end
    end
  end
  return {id, record, channels, fetch(elements), pending(key, ns .. '\31' .. id)}
end

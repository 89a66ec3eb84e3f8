-- ARGV[3] 'latest': keep the latest checkpoint of each namespace; 'runs': drop the checkpoints of the runs ARGV[4…]
local fields = redis.call('HKEYS', key)
local records, kept = {}, {}
for _, field in ipairs(fields) do
  local ns, id = string.match(field, '^c\31([^\31]*)\31(.*)$')
  if ns then
    records[ns] = records[ns] or {}
    records[ns][id] = head(redis.call('HGET', key, field))
  end
end

-- a delta channel is rebuilt from the writes since the nearest ancestor that holds its value
local function keep_with_deltas(ns, id)
  local open
  while id and records[ns][id] do
    local record = records[ns][id]
    kept[ns .. '\31' .. id] = true
    if not open then
      open = {}
      for _, channel in ipairs(record[4]) do open[channel] = true end
    end
    for channel in pairs(record[3]) do open[channel] = nil end
    if next(open) == nil then return end
    id = record[1]
  end
end

local gone, runs = 0, {}
for i = 4, #ARGV do runs[ARGV[i]] = true end
for ns, by_id in pairs(records) do
  if ARGV[3] == 'latest' then
    keep_with_deltas(ns, redis.call('HGET', key, 'i\31' .. ns))
  else
    for id, record in pairs(by_id) do
      if runs[record[2]] then gone = gone + 1 else kept[ns .. '\31' .. id] = true end
    end
  end
end
-- a busy thread that has nothing of these runs is no obstacle
if ARGV[3] == 'runs' and gone == 0 then return 'ok' end
if lost then return 'lost' end

local used = {}
for ns, by_id in pairs(records) do
  local latest
  for id, record in pairs(by_id) do
    if kept[ns .. '\31' .. id] then
      if not latest or latest < id then latest = id end
      for channel, version in pairs(record[3]) do
        local field = 'b\31' .. ns .. '\31' .. channel .. '\31' .. version
        local blob = not used[field] and redis.call('HGET', key, field)
        used[field] = true
        if blob and string.sub(blob, 1, 1) == 'L' then
          for at = 2, #blob, 16 do used['e\31' .. string.sub(blob, at, at + 15)] = true end
        end
      end
    end
  end
  if latest then
    redis.call('HSET', key, 'i\31' .. ns, latest)
    used['i\31' .. ns] = true
  end
end

for _, field in ipairs(fields) do
  local kind = string.sub(field, 1, 1)
  local at = string.sub(field, 3)
  if kind == 'w' then at = string.match(at, '^[^\31]*\31[^\31]*') end
  local here = used[field]
  if kind == 'c' or kind == 'p' or kind == 'w' then here = kept[at] end
  if not here then redis.call('HDEL', key, field) end
end
return 'ok'

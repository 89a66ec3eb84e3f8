-- KEYS[1] the thread's hash; ARGV[1] namespace, [2] checkpoint id or '' for the latest, [3…] delta channels
-- returns of each ancestor, nearest first, that any channel still needs: the seeds found there (channel, blob,
-- its elements) and its writes, each after its name
local key, ns, id = KEYS[1], ARGV[1], ARGV[2]
if id == '' then id = redis.call('HGET', key, 'i\31' .. ns) end
local function read(of)
  local record = of and of ~= '' and redis.call('HGET', key, 'c\31' .. ns .. '\31' .. of)
  return record and head(record)
end
local open, steps = {}, {}
for i = 3, #ARGV do open[ARGV[i]] = true end
local target = read(id)
id = target and target[1]
while next(open) do
  local record = read(id)
  if not record then break end
  local seeds, writes = {}, {}
  local all = pending(key, ns .. '\31' .. id)
  for i = 1, #all, 2 do
    if open[head(all[i + 1])[3]] then
      writes[#writes + 1] = all[i]
      writes[#writes + 1] = all[i + 1]
    end
  end
  for channel, version in pairs(record[3]) do
    if open[channel] then
      local blob = redis.call('HGET', key, 'b\31' .. ns .. '\31' .. channel .. '\31' .. version)
      local elements = {}
      if blob and string.sub(blob, 1, 1) == 'L' then
        for from = 2, #blob, 16 do
          elements[#elements + 1] = redis.call('HGET', key, 'e\31' .. string.sub(blob, from, from + 15))
        end
      end
      seeds[#seeds + 1] = {channel, blob, elements}
      open[channel] = nil
    end
  end
  steps[#steps + 1] = {seeds, writes}
  id = record[1]
end
return steps

-- KEYS[1] the thread's hash; returns namespace and id of all its checkpoints
local found = {}
for _, field in ipairs(redis.call('HKEYS', KEYS[1])) do
  if string.sub(field, 1, 1) == 'c' then found[#found + 1] = string.sub(field, 3) end
end
return found

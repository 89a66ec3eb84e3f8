-- ARGV[3] namespace, [4] checkpoint id, then of each write its name, value and '1' when it replaces one that is there
if lost then return 'lost' end
local at = ARGV[3] .. '\31' .. ARGV[4]
local names = redis.call('HGET', key, 'p\31' .. at) or ''
for i = 5, #ARGV, 3 do
  local field = 'w\31' .. at .. '\31' .. ARGV[i]
  local there = redis.call('HEXISTS', key, field) == 1
  if not there then names = names .. ARGV[i] .. '\30' end
  if not there or ARGV[i + 2] == '1' then redis.call('HSET', key, field, ARGV[i + 1]) end
end
redis.call('HSET', key, 'p\31' .. at, names)
touch()
return 'ok'

-- ARGV[3] namespace, [4] checkpoint id, [5] its record, [6] id of a checkpoint that has all elements that are not sent,
-- or '', then fields and values of elements and blobs
if lost then return 'lost' end
local ns, id, record = ARGV[3], ARGV[4], ARGV[5]
for i = 7, #ARGV, 2 do redis.call('HSET', key, ARGV[i], ARGV[i + 1]) end
touch()
-- another process may have pruned or deleted what the writer took for stored
for channel, version in pairs(head(record)[3]) do
  if redis.call('HEXISTS', key, 'b\31' .. ns .. '\31' .. channel .. '\31' .. version) == 0 then return 'missing' end
end
-- where that checkpoint is, its elements are
local known = ARGV[6] ~= '' and redis.call('HEXISTS', key, 'c\31' .. ns .. '\31' .. ARGV[6]) == 1
for i = 7, known and 0 or #ARGV, 2 do
  local value = ARGV[i + 1]
  if string.sub(ARGV[i], 1, 1) == 'b' and string.sub(value, 1, 1) == 'L' then
    for at = 2, #value, 16 do
      if redis.call('HEXISTS', key, 'e\31' .. string.sub(value, at, at + 15)) == 0 then return 'missing' end
    end
  end
end
redis.call('HSET', key, 'c\31' .. ns .. '\31' .. id, record)
local latest = redis.call('HGET', key, 'i\31' .. ns)
if not latest or latest < id then redis.call('HSET', key, 'i\31' .. ns, id) end
touch()
return 'ok'

-- ARGV[3] namespace, [4] checkpoint id, then of each write its name, value and '1' when it replaces one that is there
if lost then return 'lost' end
local at = ARGV[3] .. '\31' .. ARGV[4]
local packed = redis.call('HGET', key, 'p\31' .. at)
local writes, places = packed and cmsgpack.unpack(packed) or {}, {}
local room = 4096 - #(packed or '')
for i = 1, #writes, 2 do places[writes[i]] = i end
for i = 5, #ARGV, 3 do
  local name, write = ARGV[i], ARGV[i + 1]
  local place = places[name]
  if not place or ARGV[i + 2] == '1' then
    if place and writes[place + 1] == '' then redis.call('HDEL', key, 'w\31' .. at .. '\31' .. name) end
    place = place or #writes + 1
    places[name], writes[place] = place, name
    -- few small ones stand together, for each field costs some 100 bytes beside what it holds
    if #write <= room then
      writes[place + 1], room = write, room - #write
    else
      writes[place + 1] = ''
      redis.call('HSET', key, 'w\31' .. at .. '\31' .. name, write)
    end
  end
end
redis.call('HSET', key, 'p\31' .. at, cmsgpack.pack(writes))
touch()
return 'ok'

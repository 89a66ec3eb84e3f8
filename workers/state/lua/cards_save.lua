-- ARGV: approval id, place, message there (JSON) or '' to forget it, channel, who took the request or ''
local id, key = ARGV[1], K.cards(ARGV[1])
if ARGV[3] == '' then redis.call('HDEL', key, ARGV[2])
elseif redis.call('EXISTS', K.approval(id)) == 1 then
  local lost = ARGV[5] ~= '' and redis.call('HGET', K.cards_taken(ARGV[4]), id) ~= ARGV[5]
  local known = lost and redis.call('HGET', key, ARGV[2])
  if known then
    -- another replica has drawn it meanwhile: what is shown now nobody knows
    local there = cjson.decode(known)
    there.drawn, there.due_ms = '', 0
    redis.call('HSET', key, ARGV[2], cjson.encode(there))
  else redis.call('HSET', key, ARGV[2], ARGV[3]) end
  if lost then redis.call('ZADD', K.cards_due(ARGV[4]), 'LT', int(NOW), id) end
end
return {}

-- KEYS[1] the prefix of all keys; ARGV the operations, each its name and what it takes:
--   get ns key refresh · scan prefix ns seq skip count refresh · namespaces prefix after count
--   put ns key ttl blob · delete ns key
-- A namespace is its labels, each ended by a zero byte. An item is created, updated and ttl (microseconds, big-endian
-- doubles; a ttl below zero: none) and the blob. Items of a namespace are in the order they were first put.
-- Returns the replies, or false while expired items have to be removed first.
local MOST = 1000
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]

local function expiry(ns, key) return #ns .. ':' .. ns .. key end

local function remove(ns, key)
  redis.call('ZREM', K.store_expiries, expiry(ns, key))
  if redis.call('HDEL', K.store_items(ns), key) == 0 then return end
  redis.call('ZREM', K.store_order(ns), key)
  if redis.call('EXISTS', K.store_order(ns)) == 0 then redis.call('ZREM', K.store_namespaces, ns) end
end

local due = redis.call('ZRANGEBYSCORE', K.store_expiries, '-inf', now, 'LIMIT', 0, MOST)
for _, member in ipairs(due) do
  local size, start = string.match(member, '^(%d+):()')
  remove(string.sub(member, start, start + size - 1), string.sub(member, start + size))
end
if #due == MOST then return false end

local function refresh(ns, key, item)
  local _, _, ttl = struct.unpack('>ddd', item)
  if ttl >= 0 then redis.call('ZADD', K.store_expiries, now + ttl, expiry(ns, key)) end
end

local op, at = {}, 1
local function take()
  at = at + 1
  return ARGV[at - 1]
end

function op.get()
  local ns, key, again = take(), take(), take()
  local item = redis.call('HGET', K.store_items(ns), key)
  if item and again == '1' then refresh(ns, key, item) end
  return item
end

function op.put()
  local ns, key, ttl, blob = take(), take(), tonumber(take()), take()
  local old = redis.call('HGET', K.store_items(ns), key)
  local created = old and struct.unpack('>d', old) or now
  redis.call('HSET', K.store_items(ns), key, struct.pack('>ddd', created, now, ttl) .. blob)
  if not old then
    redis.call('ZADD', K.store_order(ns), redis.call('INCR', K.store_sequence), key)
    redis.call('ZADD', K.store_namespaces, 0, ns)
  end
  if ttl >= 0 then
    redis.call('ZADD', K.store_expiries, now + ttl, expiry(ns, key))
  else
    redis.call('ZREM', K.store_expiries, expiry(ns, key))
  end
  return 1
end

function op.delete()
  local ns, key = take(), take()
  remove(ns, key)
  return 1
end

local function namespaces(prefix, low, count)
  -- labels are UTF-8, in which there is no byte 255
  local high = prefix == '' and '+' or '(' .. prefix .. '\255'
  return redis.call('ZRANGEBYLEX', K.store_namespaces, low, high, 'LIMIT', 0, count)
end

function op.namespaces()
  local prefix, after, count = take(), take(), take()
  return namespaces(prefix, after == '' and '[' .. prefix or '(' .. after, count)
end

function op.scan()
  local prefix, from, seq = take(), take(), take()
  local skip, count, again = tonumber(take()), tonumber(take()), take()
  local found, low = {}, seq == '' and '[' .. prefix or '[' .. from
  local function add(ns, first)
    local keys = redis.call('ZRANGE', K.store_order(ns), first, first + math.min(count, MOST) - 1, 'WITHSCORES')
    local names = {}
    for i = 1, #keys, 2 do names[#names + 1] = keys[i] end
    if #names == 0 then return 0 end
    for i, item in ipairs(redis.call('HMGET', K.store_items(ns), unpack(names))) do
      found[#found + 1] = {ns, names[i], keys[2 * i], item}
      if again == '1' then refresh(ns, names[i], item) end
    end
    count = count - #names
    return #names
  end
  while count > 0 do
    local some = namespaces(prefix, low, 100)
    for _, ns in ipairs(some) do
      local first = skip
      if seq ~= '' and ns == from then first = redis.call('ZCOUNT', K.store_order(ns), '-inf', seq) end
      local size = redis.call('ZCARD', K.store_order(ns))
      skip = math.max(0, skip - size)
      while first < size and count > 0 do first = first + add(ns, first) end
      if count == 0 then return found end
    end
    if #some < 100 then return found end
    low = '(' .. some[#some]
  end
  return found
end

local replies = {}
while at <= #ARGV do replies[#replies + 1] = op[take()]() end
return replies

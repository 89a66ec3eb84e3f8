-- KEYS[1] the thread's hash, KEYS[2] its lease, ARGV[1] the writer's token or '', ARGV[2] the TTL in ms or '0'
local key = KEYS[1]
local lost = (redis.call('HGET', KEYS[2], 'token') or '') ~= ARGV[1]
local function touch()
  if ARGV[2] ~= '0' then redis.call('PEXPIRE', key, ARGV[2]) end
end

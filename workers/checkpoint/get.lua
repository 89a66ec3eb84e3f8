-- KEYS[1] the thread's hash; ARGV[1] the TTL in ms or '0', [2] namespace, [3] checkpoint id or '' for the latest
local found = saved(KEYS[1], ARGV[2], ARGV[3])
if found and ARGV[1] ~= '0' then redis.call('PEXPIRE', KEYS[1], ARGV[1]) end
return found

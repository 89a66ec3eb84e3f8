-- ARGV: run id, token
local thread = fenced(ARGV[1], ARGV[2])
if not thread then return refuse(ARGV[1]) end
redis.call('HDEL', K.thread(thread), 'repair', 'rollback')
return 1

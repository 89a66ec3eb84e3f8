-- ARGV: approval id, place, message there (JSON) or '' to forget it
if ARGV[3] == '' then redis.call('HDEL', K.cards(ARGV[1]), ARGV[2])
elseif redis.call('EXISTS', K.approval(ARGV[1])) == 1 then redis.call('HSET', K.cards(ARGV[1]), ARGV[2], ARGV[3]) end
return {}

-- ARGV: run id, token, pid, attempt, '1' if the segment has made progress, then type/ns/data triples
if not fenced(ARGV[1], ARGV[2]) then return refuse(ARGV[1]) end
if ARGV[5] == '1' then redis.call('HSET', K.run(ARGV[1]), 'progressed', '1') end
for i = 6, #ARGV, 3 do event(ARGV[1], ARGV[i], ARGV[i + 2], ARGV[4], ARGV[3], ARGV[i + 1]) end
return 1

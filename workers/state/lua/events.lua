-- ARGV: run id, token, pid, attempt, batch, '1' if the segment has made progress, then type/ns/data triples
local run = ARGV[1]
local thread = fenced(run, ARGV[2])
if not thread then return refuse(run) end
-- a batch that was sent again because its reply was lost
if redis.call('HGET', K.run(run), 'batch') == ARGV[5] then return 1 end
redis.call('HSET', K.run(run), 'batch', ARGV[5])
if ARGV[6] == '1' then
  redis.call('HSET', K.run(run), 'progressed', '1')
  note_kept(thread)
end
for i = 7, #ARGV, 3 do event(run, ARGV[i], ARGV[i + 2], ARGV[4], ARGV[3], ARGV[i + 1]) end
return 1

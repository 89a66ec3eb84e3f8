-- ARGV: run id, token, pid, attempt, then type/ns/data triples
if not fenced(ARGV[1], ARGV[2]) then return refuse(ARGV[1]) end
for i = 5, #ARGV, 3 do event(ARGV[1], ARGV[i], ARGV[i + 2], ARGV[4], ARGV[3], ARGV[i + 1]) end
return 1

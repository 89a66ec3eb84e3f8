-- ARGV: run id
if not may_change_ledger(ARGV[1], '') then return refuse(ARGV[1]) end
forget_failures(ARGV[1])
redis.call('DEL', K.run_tries(ARGV[1]))
return {'forgotten'}

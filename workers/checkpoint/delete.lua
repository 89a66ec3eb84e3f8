if lost then return 'lost' end
redis.call('UNLINK', key)
return 'ok'

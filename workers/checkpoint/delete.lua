redis.call('UNLINK', key)
return 'ok'

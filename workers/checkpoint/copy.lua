-- KEYS[3] the hash to copy from
if lost then return 'lost' end
if redis.call('EXISTS', key) == 1 then return 'exists' end
redis.call('COPY', KEYS[3], key)
touch()
return 'ok'

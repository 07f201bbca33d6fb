-- fixed_window 1 limit seconds
local n = redis.call('INCR', KEYS[1])
if n == 1 then redis.call('EXPIRE', KEYS[1], ARGV[2]) end
if n > tonumber(ARGV[1]) then return {0, n} end
return {1, n}
---
-- sliding_log 1 now window limit
local now, window, limit = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now - window)
local used = redis.call('ZCARD', KEYS[1])
if used < limit then redis.call('ZADD', KEYS[1], now, now .. ':' .. used) return {1, limit - used - 1} end
return {0, 0}
---
-- token_bucket 1 rate capacity now wanted
local rate, capacity, now, wanted = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local state = redis.call('HMGET', KEYS[1], 'tokens', 'at')
local tokens, at = tonumber(state[1]) or capacity, tonumber(state[2]) or now
tokens = math.min(capacity, tokens + math.max(0, now - at) * rate)
local allowed = tokens >= wanted
if allowed then tokens = tokens - wanted end
redis.call('HSET', KEYS[1], 'tokens', tokens, 'at', now)
return {allowed and 1 or 0, tostring(tokens)}
---
-- leaky_bucket 1 leak capacity now
local level = tonumber(redis.call('HGET', KEYS[1], 'level') or '0')
local at = tonumber(redis.call('HGET', KEYS[1], 'at') or ARGV[3])
level = math.max(0, level - (tonumber(ARGV[3]) - at) * tonumber(ARGV[1]))
if level + 1 > tonumber(ARGV[2]) then return redis.error_reply('LIMITED bucket is full') end
redis.call('HMSET', KEYS[1], 'level', level + 1, 'at', ARGV[3])
return {string.format('%.3f', level + 1)}
---
-- two_windows 2 limit1 limit2
for i, key in ipairs(KEYS) do
  if tonumber(redis.call('GET', key) or 0) >= tonumber(ARGV[i]) then return i end
end
for _, key in ipairs(KEYS) do redis.call('INCR', key) end
return 0
---
-- lock 1 owner
if redis.call('EXISTS', KEYS[1]) == 0 then return redis.call('SET', KEYS[1], ARGV[1], 'PX', 600000) end
return redis.call('GET', KEYS[1]) == ARGV[1] and 'HELD' or false
---
-- unlock 1 owner
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) else return 0 end
---
-- extend 1 owner
if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], 700000) end
return -1
---
-- reentrant_lock 1 owner
if redis.call('exists', KEYS[1]) == 0 or redis.call('hexists', KEYS[1], ARGV[1]) == 1 then
  return redis.call('hincrby', KEYS[1], ARGV[1], 1)
end
return nil
---
-- reentrant_unlock 1 owner
if redis.call('hexists', KEYS[1], ARGV[1]) == 0 then return nil end
local left = redis.call('hincrby', KEYS[1], ARGV[1], -1)
if left > 0 then return 0 end
redis.call('del', KEYS[1])
return 1
---
-- semaphore 1 owner now limit
redis.call('zremrangebyscore', KEYS[1], '-inf', tonumber(ARGV[2]) - 50)
if redis.call('zcard', KEYS[1]) < tonumber(ARGV[3]) then
  redis.call('zadd', KEYS[1], ARGV[2], ARGV[1]) return 1
end
return redis.call('zscore', KEYS[1], ARGV[1]) and 2 or 0
---
-- read_write_lock 1 owner mode
local mode = redis.call('hget', KEYS[1], 'mode')
if not mode then redis.call('hset', KEYS[1], 'mode', ARGV[2], ARGV[1], 1) return {ok = 'LOCKED'} end
if mode == 'read' and ARGV[2] == 'read' then redis.call('hincrby', KEYS[1], ARGV[1], 1) return {ok = 'SHARED'} end
return {err = 'LOCKED by another'}
---
-- push_job 2 id priority payload
redis.call('HSET', KEYS[1], ARGV[1], cjson.encode({id = ARGV[1], data = ARGV[3]}))
redis.call('ZADD', KEYS[2], -tonumber(ARGV[2]), ARGV[1])
return redis.call('ZCARD', KEYS[2])
---
-- pop_job 2
local id = redis.call('ZRANGE', KEYS[2], 0, 0)[1]
if not id then return false end
redis.call('ZREM', KEYS[2], id)
local job = redis.call('HGET', KEYS[1], id)
redis.call('HDEL', KEYS[1], id)
if not job then return {id} end
return {id, cjson.decode(job).data}
---
-- delay_job 1 id now
return redis.call('ZADD', KEYS[1], 'GT', ARGV[2] + 10, ARGV[1])
---
-- promote_jobs 2 now
local due = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', ARGV[1], 'LIMIT', 0, 3)
for _, id in ipairs(due) do redis.call('RPUSH', KEYS[2], id) redis.call('ZREM', KEYS[1], id) end
return due
---
-- reliable_pop 2
local item = redis.call('LMOVE', KEYS[1], KEYS[2], 'LEFT', 'RIGHT')
return item or redis.status_reply('EMPTY')
---
-- requeue_stalled 2
local moved = 0
for _ = 1, redis.call('LLEN', KEYS[2]) do
  if redis.call('RPOPLPUSH', KEYS[2], KEYS[1]) then moved = moved + 1 end
end
return moved
---
-- unique_enqueue 2 item
if redis.call('SADD', KEYS[1], ARGV[1]) == 1 then return redis.call('LPUSH', KEYS[2], ARGV[1]) end
return -redis.call('LLEN', KEYS[2])
---
-- bounded_list 1 item
local length = redis.call('LPUSH', KEYS[1], ARGV[1])
redis.call('LTRIM', KEYS[1], 0, 4)
return {length, redis.call('LRANGE', KEYS[1], 0, -1)}
---
-- best_score 1 member score
local before = redis.call('ZSCORE', KEYS[1], ARGV[1])
if before and tonumber(before) >= tonumber(ARGV[2]) then return {0, before} end
redis.call('ZADD', KEYS[1], ARGV[2], ARGV[1])
return {1, redis.call('ZREVRANK', KEYS[1], ARGV[1]), redis.call('ZSCORE', KEYS[1], ARGV[1])}
---
-- around_me 1 member
local rank = redis.call('ZREVRANK', KEYS[1], ARGV[1])
if not rank then return {} end
local first = math.max(0, rank - 1)
return redis.call('ZREVRANGE', KEYS[1], first, rank + 1, 'WITHSCORES')
---
-- top_of_many 3
local sum = {}
for _, key in ipairs(KEYS) do
  local flat = redis.pcall('ZRANGE', key, 0, -1, 'WITHSCORES')
  if flat.err then return flat.err end
  for i = 1, #flat, 2 do sum[flat[i]] = (sum[flat[i]] or 0) + tonumber(flat[i + 1]) end
end
local names = {}
for name in pairs(sum) do names[#names + 1] = name end
table.sort(names, function(a, b) return sum[a] == sum[b] and a < b or sum[a] > sum[b] end)
local out = {}
for i = 1, math.min(3, #names) do out[i] = names[i] .. '=' .. sum[names[i]] end
return out
---
-- reserve 1 item count
local stock = tonumber(redis.call('HGET', KEYS[1], ARGV[1]))
if not stock then return redis.error_reply('NOITEM ' .. ARGV[1]) end
if stock < tonumber(ARGV[2]) then return {err = 'SHORT only ' .. stock} end
return redis.call('HINCRBY', KEYS[1], ARGV[1], -ARGV[2])
---
-- restock 1 item count
return redis.call('HINCRBYFLOAT', KEYS[1], ARGV[1], ARGV[2])
---
-- transfer 2 amount
local from = tonumber(redis.call('GET', KEYS[1]) or 0)
if from < tonumber(ARGV[1]) then return {err = 'FUNDS missing'} end
redis.call('DECRBY', KEYS[1], ARGV[1])
return {redis.call('GET', KEYS[1]), redis.call('INCRBY', KEYS[2], ARGV[1])}
---
-- compare_and_set 1 old new
local now = redis.call('GET', KEYS[1])
if now == ARGV[1] or (not now and ARGV[1] == 'a') then return redis.call('SET', KEYS[1], ARGV[2]) end
return now
---
-- session_touch 1 field value
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
redis.call('EXPIRE', KEYS[1], 1800)
local all, out = redis.call('HGETALL', KEYS[1]), {}
for i = 1, #all, 2 do out[#out + 1] = all[i] .. '=' .. all[i + 1] end
table.sort(out)
return table.concat(out, '&')
---
-- session_json 1 field value
local session = cjson.decode(redis.call('GET', KEYS[1]) or '{}')
session[ARGV[1]] = ARGV[2]
redis.call('SET', KEYS[1], cjson.encode(session))
return session[ARGV[1]]
---
-- packed 1 item
local list = redis.call('GET', KEYS[1])
list = list and cmsgpack.unpack(list) or {}
list[#list + 1] = ARGV[1]
redis.call('SET', KEYS[1], cmsgpack.pack(list))
return list
---
-- tag 2 tag
redis.call('SADD', KEYS[1], KEYS[2])
redis.call('SET', KEYS[2], ARGV[1])
return redis.call('SCARD', KEYS[1])
---
-- invalidate 1
local members = redis.call('SMEMBERS', KEYS[1])
table.sort(members)
local gone = 0
for _, key in ipairs(members) do gone = gone + redis.call('DEL', key) end
redis.call('DEL', KEYS[1])
return {gone, #members}
---
-- cached_or 1 value
local value = redis.call('GET', KEYS[1])
if value then return {'hit', value} end
redis.call('SET', KEYS[1], ARGV[1], 'EX', 900)
return {'miss', ARGV[1]}
---
-- bits 1 offset
local before = redis.call('SETBIT', KEYS[1], ARGV[1] % 64, 1)
return {before, redis.call('BITCOUNT', KEYS[1]), bit.band(redis.call('STRLEN', KEYS[1]), 7)}
---
-- page_by_cursor 1
local out, cursor = {}, '0'
repeat
  local page = redis.call('SSCAN', KEYS[1], cursor, 'COUNT', 100)
  cursor = page[1]
  for _, member in ipairs(page[2]) do out[#out + 1] = member end
until cursor == '0'
table.sort(out)
return out
---
-- swap 2
local a, b = redis.call('GET', KEYS[1]), redis.call('GET', KEYS[2])
if a then redis.call('SET', KEYS[2], a) else redis.call('DEL', KEYS[2]) end
if b then redis.call('SET', KEYS[1], b) else redis.call('DEL', KEYS[1]) end
return {a, b}
---
-- rename_and_count 2
local reply = redis.pcall('RENAME', KEYS[1], KEYS[2])
if reply.err then return reply.err end
return {reply.ok, redis.call('EXISTS', KEYS[1], KEYS[2]), redis.call('TYPE', KEYS[2]).ok}
---
-- other_database 1 value
redis.call('SELECT', 3)
redis.call('SET', KEYS[1], ARGV[1])
local there = redis.call('GET', KEYS[1])
redis.call('SELECT', 0)
return {there, redis.pcall('GET', KEYS[1])}
---
-- undeclared 1 name
redis.call('SET', KEYS[1], ARGV[1])
return redis.pcall('APPEND', 'other:' .. ARGV[1], ARGV[1])
---
-- resp3 1
redis.setresp(3)
local all = redis.pcall('HGETALL', KEYS[1])
if all.err then return all end
local names = {}
for name in pairs(all.map) do names[#names + 1] = name end
table.sort(names)
return {names, redis.pcall('SISMEMBER', KEYS[1], 'x'), true, 1.5}

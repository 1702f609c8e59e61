"""The steps of `shared.store.assembly` that have to be atomic.

Each script begins with the guard: its first key is the epoch, its first argument what that must say.
"""

from __future__ import annotations

from shared.store.epoch import GUARD

# KEYS: hash   ARGV: field, body, ttl.  Returns new | same | other
PUT = f"""{GUARD}
local new = redis.call('HSETNX', KEYS[2], ARGV[2], ARGV[3])
redis.call('EXPIRE', KEYS[2], ARGV[4])
if new == 1 then return 'new' end
return redis.call('HGET', KEYS[2], ARGV[2]) == ARGV[3] and 'same' or 'other'
"""

# KEYS: calls, parts   ARGV: number, body, ttl.  A conflict is remembered.
KEEP_CALL = f"""{GUARD}
local kept = 'new'
if redis.call('HSETNX', KEYS[2], ARGV[2], ARGV[3]) == 0 then
  kept = redis.call('HGET', KEYS[2], ARGV[2]) == ARGV[3] and 'same' or 'other'
end
redis.call('EXPIRE', KEYS[2], ARGV[4])
if kept == 'other' then
  redis.call('HSETNX', KEYS[3], 'conflict', ARGV[2])
  redis.call('EXPIRE', KEYS[3], ARGV[4])
end
return {{kept, redis.call('HEXISTS', KEYS[3], 'outcome'), redis.call('HEXISTS', KEYS[3], 'settled')}}
"""

# KEYS: group, closed, open groups   ARGV: group id, info, now, ttl.  Returns open | other | closed
OPEN_GROUP = f"""{GUARD}
if redis.call('EXISTS', KEYS[3]) == 1 then return 'closed' end
redis.call('HSETNX', KEYS[2], 'info', ARGV[3])
if redis.call('HGET', KEYS[2], 'info') ~= ARGV[3] then return 'other' end
redis.call('ZADD', KEYS[4], 'NX', ARGV[4], ARGV[2])
for _, key in ipairs({{KEYS[2], KEYS[4]}}) do redis.call('EXPIRE', key, ARGV[5]) end
return 'open'
"""

# KEYS: group, closed, parts, calls   ARGV: attempt, body, ttl of the group, ttl of the parts
SETTLE = f"""{GUARD}
for n = 4, 5 do redis.call('EXPIRE', KEYS[n], ARGV[5]) end
if redis.call('HEXISTS', KEYS[2], ARGV[2]) == 1 then return 'settled' end
if redis.call('EXISTS', KEYS[3]) == 1 then return 'closed' end
redis.call('HSET', KEYS[2], ARGV[2], ARGV[3])
redis.call('EXPIRE', KEYS[2], ARGV[4])
redis.call('HSET', KEYS[4], 'settled', 1)
redis.call('EXPIRE', KEYS[4], ARGV[5])
return 'settled'
"""

# KEYS: group, closed, open groups, outbox   ARGV: group id, body, fields of the group, its ttl, ttl of the rest
CLOSE_GROUP = f"""{GUARD}
if redis.call('EXISTS', KEYS[3]) == 1 then return 'before' end
if redis.call('HLEN', KEYS[2]) ~= tonumber(ARGV[4]) then return 'changed' end
redis.call('SET', KEYS[3], 1, 'EX', ARGV[6])
redis.call('XADD', KEYS[5], '*', 'group', ARGV[2], 'body', ARGV[3])
redis.call('ZREM', KEYS[4], ARGV[2])
redis.call('EXPIRE', KEYS[2], ARGV[5])
redis.call('EXPIRE', KEYS[5], ARGV[6])
return 'closed'
"""

# KEYS: closed groups   ARGV: ttl
NOTE_CLOSED = f"""{GUARD}
for n = 2, #KEYS do redis.call('SET', KEYS[n], 1, 'EX', ARGV[2]) end
"""

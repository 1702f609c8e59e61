"""Calls from their number to their end, many of them in one round trip to the store.

`begin` gives a call its number and leaves a durable intent, in the same step in which it checks that the session lives and
decides which engine takes it. So no call is ever forwarded without a trace, or to an engine that is about to load weights,
whatever the number of proxies.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Collection, Sequence
from functools import lru_cache
from typing import Any, Literal, NamedTuple

import msgspec

from shared.errors import StoreUnavailable
from shared.store.connect import Client, Keys, store_errors, text
from shared.store.replicas import CHOOSE

log = logging.getLogger(__name__)

CallEnd = Literal["delivered", "cut", "errored"]
"""`delivered` and `cut` promise that the record of a call is durable; `errored` that nothing was sampled."""

Refusal = Literal["unknown", "sealed", "hold"]

LIFE_S = 3 * 86400
"""Seconds after which what nobody ended expires: longer than any session lives."""

_MOST_AT_ONCE = 256
"""Calls in one script: the store does nothing else meanwhile."""

# KEYS: replicas, calls in flight, a secret per call   ARGV: prefix of session keys, ttl, a proxy id per call
# Without a table nobody knows which weights are served: calls are held.
_BEGIN = f"""{CHOOSE}
local choose, version = chooser(redis.call('HGETALL', KEYS[1]), KEYS[2])
local function begin(secret, proxy)
  local sid = redis.call('GET', secret)
  if not sid then return {{'unknown'}} end
  local skey = ARGV[1] .. sid
  local s = redis.call('HMGET', skey, 'status', 'meta', 'replica')
  if s[1] ~= 'live' then return {{'sealed'}} end
  local at = choose(s[3])
  if not at then return {{'hold'}} end
  if at ~= s[3] then redis.call('HSET', skey, 'replica', at) end
  local seq = redis.call('HINCRBY', skey, 'seq', 1)
  redis.call('HSET', skey .. ':calls', seq, 'open:' .. proxy)
  if seq == 1 then redis.call('EXPIRE', skey .. ':calls', ARGV[2]) end
  redis.call('HSET', KEYS[2], sid .. '/' .. seq, proxy .. ' ' .. at)
  return {{'ok', sid, s[2], seq, version[at], at}}
end
local replies = {{}}
for n = 3, #KEYS do replies[n - 2] = begin(KEYS[n], ARGV[n]) end
return replies
"""

# KEYS: replicas, calls in flight, session   ARGV: session id, seq, replicas that cannot be reached
_MOVE = f"""{CHOOSE}
local call = redis.call('HGET', KEYS[2], ARGV[1] .. '/' .. ARGV[2])
if not call then return {{'sealed'}} end
local choose, version = chooser(redis.call('HGETALL', KEYS[1]), KEYS[2])
local avoid = {{}}
for n = 3, #ARGV do avoid[ARGV[n]] = true end
local at = choose(false, avoid)
if not at then  -- it waits at none: an engine that is to load weights must not wait for it
  redis.call('HSET', KEYS[2], ARGV[1] .. '/' .. ARGV[2], string.match(call, '^%S+') .. ' ')
  return {{'hold'}}
end
redis.call('HSET', KEYS[3], 'replica', at)
redis.call('HSET', KEYS[2], ARGV[1] .. '/' .. ARGV[2], string.match(call, '^%S+') .. ' ' .. at)
return {{'ok', version[at], at}}
"""

# KEYS: calls in flight   ARGV: prefix of session keys; session id, seq, state per call.  What sealing has settled stays.
_SETTLE = """
for n = 2, #ARGV, 3 do
  local calls = ARGV[1] .. ARGV[n] .. ':calls'
  local now = redis.call('HGET', calls, ARGV[n + 1])
  if now and string.sub(now, 1, 5) == 'open:' then redis.call('HSET', calls, ARGV[n + 1], ARGV[n + 2]) end
  redis.call('HDEL', KEYS[1], ARGV[n] .. '/' .. ARGV[n + 1])
end
"""


@lru_cache(4096)
def secret_hash(secret: str) -> str:
    """What the store knows of a secret."""
    return hashlib.sha256(secret.encode()).hexdigest()


class Begun(msgspec.Struct, frozen=True):
    """A call that may be forwarded: its session, the metadata that was given to `create`, its number, the weight version, and
    the replica that serves it."""

    session_id: str
    meta: bytes
    seq: int
    version: int
    replica: str


class Ended(NamedTuple):
    """What became of a call; of one that is `lost` no record will come."""

    session_id: str
    seq: int
    state: CallEnd | Literal["lost"]


class _Asked(NamedTuple):
    secret: str
    proxy_id: str
    reply: asyncio.Future[Begun | Refusal]


class Intents:
    """Open calls of one run. Every method raises `StoreUnavailable` when the store does not answer in time."""

    def __init__(self, client: Client, key: Keys) -> None:
        self._tables = [key("replicas"), key("replicas", "calls")]
        self._session, self._secret = key("sess", ""), key("secret", "")
        self._begin = client.register_script(_BEGIN)
        self._move = client.register_script(_MOVE)
        self._settle = client.register_script(_SETTLE)
        self._asked: list[_Asked] = []
        self._abandoned: list[Ended] = []
        self._beginning: asyncio.Task[None] | None = None

    async def begin(self, secret: str, proxy_id: str) -> Begun | Refusal:
        """Numbers a call and leaves its intent, or says why not: no such secret, session sealed, weights being loaded.

        Calls that arrive while others are being numbered wait for those, and are then numbered together. One that is cancelled
        meanwhile is settled as errored.
        """
        reply: asyncio.Future[Begun | Refusal] = asyncio.get_running_loop().create_future()
        self._asked.append(_Asked(secret, proxy_id, reply))
        if self._beginning is None:
            self._beginning = asyncio.create_task(self._begin_all())
        return await reply

    async def move(self, begun: Begun, tried: Collection[str] = ()) -> Begun | Refusal:
        """Gives a call of which nothing was sampled to another replica than its own and those that were tried before, or to one
        of these again if there is no other.

        `hold` if none is open, `sealed` if the call was given up meanwhile.
        """
        keys = [*self._tables, f"{self._session}{begun.session_id}"]
        with store_errors("move a call"):
            reply = await self._move(keys=keys, args=[begun.session_id, begun.seq, begun.replica, *tried])
        if text(reply[0]) != "ok":
            return "hold" if text(reply[0]) == "hold" else "sealed"
        return msgspec.structs.replace(begun, version=int(reply[1]), replica=text(reply[2]))

    async def settle(self, ended: Sequence[Ended]) -> None:
        """Settles calls; doing it again changes nothing."""
        with store_errors("settle calls"):
            for first in range(0, len(ended), _MOST_AT_ONCE):
                told = [field for call in ended[first : first + _MOST_AT_ONCE] for field in call]
                await self._settle(keys=self._tables[1:], args=[self._session, *told])

    async def _begin_all(self) -> None:
        while self._asked:
            asked, self._asked = self._asked[:_MOST_AT_ONCE], self._asked[_MOST_AT_ONCE:]
            try:
                replies = await self._run_begin(asked)
            except Exception as error:  # whatever it is, those who asked must hear of it
                _fail(asked, error)
            else:
                await self._answer(asked, replies)
        self._beginning = None

    async def _run_begin(self, asked: list[_Asked]) -> list[Begun | Refusal]:
        keys = [*self._tables, *[self._secret + secret_hash(a.secret) for a in asked]]
        with store_errors("register a call"):
            replies = await self._begin(keys=keys, args=[self._session, LIFE_S, *[a.proxy_id for a in asked]])
        return [_begun(reply) for reply in replies]

    async def _answer(self, asked: list[_Asked], replies: list[Begun | Refusal]) -> None:
        for call, reply in zip(asked, replies, strict=True):
            if not call.reply.done():
                call.reply.set_result(reply)
            elif isinstance(reply, Begun):  # nobody waits for it any more: left open, it would hold back seals and weights
                self._abandoned.append(Ended(reply.session_id, reply.seq, "errored"))
        if self._abandoned:
            try:
                await self.settle(self._abandoned)
                self._abandoned.clear()
            except StoreUnavailable as e:
                log.warning("%d calls stay open until the next one begins: %s", len(self._abandoned), e)


def _fail(asked: list[_Asked], error: Exception) -> None:
    for call in asked:
        if not call.reply.done():
            call.reply.set_exception(error)


def _begun(reply: list[Any]) -> Begun | Refusal:
    match reply:
        case [b"ok", session_id, meta, seq, version, replica]:
            return Begun(text(session_id), meta, seq, int(version), text(replica))
        case [b"sealed"]:
            return "sealed"
        case [b"hold"]:
            return "hold"
    return "unknown"

"""Recording sessions.

A session is one attempt of one rollout. Its secret opens it; sealing it revokes the secret and says what became of its calls.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from shared.errors import StoreWiped
from shared.store.connect import Client, Keys, store_errors, text
from shared.store.intents import LIFE_S, Begun, CallEnd, Ended, Intents, Refusal, secret_hash
from shared.store.replicas import Replicas

__all__ = ["ALIVE_S", "Begun", "CallEnd", "Ended", "Refusal", "Seal", "Sessions", "secret_hash"]

ALIVE_S = 3
"""Seconds after its last heartbeat for which a proxy counts as alive; its open calls are waited for so long."""

_POLL_S = 0.02

# KEYS: proxy, replicas, calls in flight   ARGV: seconds for which the proxy is alive, seconds for which the rest is kept
_HEARTBEAT = """
redis.call('SET', KEYS[1], 1, 'EX', ARGV[1])
for n = 2, 3 do redis.call('EXPIRE', KEYS[n], ARGV[2]) end
"""

# KEYS: session, secret   ARGV: meta, session id, ttl
_CREATE = """
local s = redis.call('HMGET', KEYS[1], 'status', 'secret')
if s[1] then return s[2] == KEYS[2] and s[1] or 'other' end
redis.call('HSET', KEYS[1], 'status', 'live', 'meta', ARGV[1], 'secret', KEYS[2])
redis.call('SET', KEYS[2], ARGV[2], 'EX', ARGV[3])
redis.call('EXPIRE', KEYS[1], ARGV[3])
return 'live'
"""

# KEYS: session, calls   ARGV: ttl
_SEAL = """
local s = redis.call('HMGET', KEYS[1], 'status', 'secret')
if not s[1] then return false end
redis.call('HSET', KEYS[1], 'status', 'sealed')
for _, key in ipairs({s[2], KEYS[1], KEYS[2]}) do redis.call('EXPIRE', key, ARGV[1]) end
return redis.call('HGETALL', KEYS[2])
"""

# KEYS: session   ARGV: reward
_SCORE = """
local s = redis.call('HMGET', KEYS[1], 'status', 'finished')
if not s[1] or s[2] then return 0 end
redis.call('HSET', KEYS[1], 'reward', ARGV[1])
return 1
"""

# KEYS: session
_FINISH = """
if redis.call('EXISTS', KEYS[1]) == 1 then redis.call('HSET', KEYS[1], 'finished', 1) end
return redis.call('HGET', KEYS[1], 'reward')
"""


@dataclass(frozen=True, slots=True)
class Seal:
    """What became of a session's calls: numbers 1..calls; the other lists name numbers, ascending."""

    calls: int
    errored: list[int] = field(default_factory=list)
    cut: list[int] = field(default_factory=list)
    lost: list[int] = field(default_factory=list)


class Sessions:
    """Sessions of one run. Every method raises `StoreUnavailable` when the store does not answer in time.

    Attributes:
        replicas: the engines that calls go to.
    """

    def __init__(self, client: Client, run_id: str, ttl_s: float = 3600.0) -> None:
        self._redis = client
        self._key = Keys(run_id)
        self._ttl = int(ttl_s)
        self._intents = Intents(client, self._key)
        self.replicas = Replicas(client, self._key, LIFE_S)
        self._create = client.register_script(_CREATE)
        self._seal = client.register_script(_SEAL)
        self._score = client.register_script(_SCORE)
        self._finish = client.register_script(_FINISH)
        self._heartbeat = client.register_script(_HEARTBEAT)

    async def create(self, session_id: str, secret: str, meta: bytes) -> bool:
        """Opens a session; doing it again changes nothing. Returns False if it was sealed, or opened with another secret."""
        with store_errors("open a session"):
            keys = [self._key("sess", session_id), self._key("secret", secret_hash(secret))]
            return text(await self._create(keys=keys, args=[meta, session_id, LIFE_S])) == "live"

    async def meta(self, session_id: str) -> bytes | None:
        """A session's metadata as given to `create`; None if there is no such session."""
        with store_errors("look up a session"):
            meta = await self._redis.hget(self._key("sess", session_id), "meta")
        return None if meta is None else text(meta).encode()

    async def begin(self, secret: str, proxy_id: str) -> Begun | Refusal:
        """Numbers a call and leaves its intent, or says why not: no such secret, session sealed, no replica open."""
        return await self._intents.begin(secret, proxy_id)

    async def move(self, begun: Begun, tried: Collection[str] = ()) -> Begun | Refusal:
        """Gives a call of which nothing was sampled to another replica, see `Intents.move`."""
        return await self._intents.move(begun, tried)

    async def status(self, secret: str) -> str | None:
        """`live` or `sealed`; None if no session has that secret."""
        with store_errors("look up a secret"):
            found = await self._redis.get(self._key("secret", secret_hash(secret)))
            status = await self._redis.hget(self._key("sess", text(found)), "status") if found else None
        return None if status is None else text(status)

    async def end(self, session_id: str, seq: int, state: CallEnd) -> None:
        """Settles a call. `delivered` and `cut` promise that its record is durable; `errored` that nothing was sampled."""
        await self.end_all([Ended(session_id, seq, state)])

    async def end_all(self, ended: Sequence[Ended]) -> None:
        """Settles calls in one round trip; doing it again changes nothing."""
        await self._intents.settle(ended)

    async def seal(self, session_id: str, drain_s: float) -> Seal | None:
        """Revokes the secret, waits up to `drain_s` for open calls of living proxies, counts the rest as lost.

        Doing it again gives the same answer. None if there is no such session. Raises `StoreWiped` when it is lost meanwhile.
        """
        until = asyncio.get_running_loop().time() + drain_s
        with store_errors("seal a session"):
            if not await self._redis.exists(self._key("sess", session_id)):
                return None
            calls = await self._revoke(session_id)
            while await self._awaited(calls) and asyncio.get_running_loop().time() < until:
                await asyncio.sleep(_POLL_S)
                calls = await self._revoke(session_id)
            await self.end_all([Ended(session_id, seq, "lost") for seq in _open(calls)])
            calls = await self._revoke(session_id)  # a call may have ended just before it was given up
        by = {state: sorted(n for n, s in calls.items() if s == state) for state in ("errored", "cut", "lost")}
        return Seal(len(calls), **by)

    async def score(self, session_id: str, reward: float) -> bool:
        """Keeps a session's reward in place of an earlier one. False if there is no such session, or it is finished."""
        with store_errors("keep a reward"):
            return bool(await self._score(keys=[self._key("sess", session_id)], args=[repr(reward)]))

    async def finish(self, session_id: str) -> float | None:
        """From now on the session's reward is what it is: gives it, None without one. Doing it again gives the same."""
        with store_errors("read a reward"):
            reward = await self._finish(keys=[self._key("sess", session_id)])
        return None if reward is None else float(text(reward))

    async def heartbeat(self, proxy_id: str) -> None:
        """Says that a proxy lives, and keeps the table of replicas from expiring; to be repeated every second."""
        with store_errors("send a heartbeat"):
            keys = [self._key("proxy", proxy_id), self._key("replicas"), self._key("replicas", "calls")]
            await self._heartbeat(keys=keys, args=[ALIVE_S, LIFE_S])

    async def _revoke(self, session_id: str) -> dict[int, str]:
        """Takes the session out of service; its calls by number with their states."""
        flat = await self._seal(keys=[self._key("sess", session_id), self._key("sess", session_id, "calls")], args=[self._ttl])
        if flat is None:
            raise StoreWiped(f"the store lost the session {session_id}, and with it the number of its calls")
        return {int(flat[i]): text(flat[i + 1]) for i in range(0, len(flat), 2)}

    async def _awaited(self, calls: dict[int, str]) -> bool:
        """Whether a living proxy is busy with one of the calls."""
        proxies = set(_open(calls).values())
        return bool(proxies) and bool(await self._redis.exists(*(self._key("proxy", p) for p in proxies)))


def _open(calls: dict[int, str]) -> dict[int, str]:
    """Calls that nobody settled, with the proxy that has them."""
    return {seq: state.removeprefix("open:") for seq, state in calls.items() if state.startswith("open:")}

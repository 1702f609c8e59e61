"""The collector's state: parts of attempts as they arrive, settled attempts of groups, and the outbox of finished groups.

Any order, any number of deliveries and any number of collectors give the same result: parts are written once, settling is
idempotent, and a group is closed by one script that writes the outbox entry in the same step.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from shared.store.connect import Client, Keys, fields, raw, store_errors, text

# KEYS: hash   ARGV: field, body.  Returns new | same | conflict; a conflict is remembered.
_PUT_ONCE = """
if redis.call('HSETNX', KEYS[1], ARGV[1], ARGV[2]) == 1 then return 'new' end
if redis.call('HGET', KEYS[1], ARGV[1]) == ARGV[2] then return 'same' end
redis.call('HSETNX', KEYS[2], 'conflict', ARGV[1])
return 'conflict'
"""

# KEYS: group, closed, open groups   ARGV: group id, info, now
_OPEN_GROUP = """
if redis.call('EXISTS', KEYS[2]) == 1 then return 0 end
redis.call('HSETNX', KEYS[1], 'info', ARGV[2])
redis.call('ZADD', KEYS[3], 'NX', ARGV[3], ARGV[1])
return 1
"""

# KEYS: group, closed, open groups, outbox   ARGV: group id, body, ttl of the group, ttl of the note that it is closed
_CLOSE_GROUP = """
if not redis.call('SET', KEYS[2], 1, 'NX', 'EX', ARGV[4]) then return 0 end
redis.call('XADD', KEYS[4], '*', 'group', ARGV[1], 'body', ARGV[2])
redis.call('ZREM', KEYS[3], ARGV[1])
redis.call('EXPIRE', KEYS[1], ARGV[3])
return 1
"""

_CLOSED_S = 3 * 86400
"""Seconds for which a closed group is remembered: longer than the bus keeps a message that could open it again."""


@dataclass(frozen=True, slots=True)
class Parts:
    """What is known of one attempt: call bodies by number, the sealing and the outcome (bodies of their messages)."""

    calls: dict[int, bytes] = field(default_factory=dict)
    sealed: bytes | None = None
    outcome: bytes | None = None
    conflict: str | None = None


@dataclass(frozen=True, slots=True)
class GroupState:
    """What is known of one group: `info` as given to `open_group`, settled bodies by (rollout id, attempt), closed or not."""

    info: bytes | None
    settled: dict[tuple[str, int], bytes]
    closed: bool


class Assembly:
    """Assembly state of one run. Every method raises `StoreUnavailable` when the store does not answer in time."""

    def __init__(self, client: Client, run_id: str, ttl_s: float = 3600.0) -> None:
        self._redis = client
        self._key = Keys(run_id)
        self._ttl = int(ttl_s)
        self._put_once = client.register_script(_PUT_ONCE)
        self._open_group = client.register_script(_OPEN_GROUP)
        self._close_group = client.register_script(_CLOSE_GROUP)

    async def put_call(self, session_id: str, seq: int, body: bytes) -> Literal["new", "same", "conflict"]:
        """Keeps a call's record; a second one with another body is a conflict and is remembered as such."""
        with store_errors("keep a call"):
            keys = [self._key("asm", session_id, "calls"), self._key("asm", session_id)]
            reply = text(await self._put_once(keys=keys, args=[seq, body]))
        return "new" if reply == "new" else "same" if reply == "same" else "conflict"

    async def put_part(self, session_id: str, part: Literal["sealed", "outcome"], body: bytes) -> None:
        """Keeps the sealing or the outcome of an attempt; the first one stays."""
        with store_errors("keep a part"):
            await self._redis.hsetnx(self._key("asm", session_id), part, body)

    async def load(self, session_id: str) -> Parts:
        """All that is known of an attempt."""
        with store_errors("load a session"):
            calls = fields(await self._redis.hgetall(self._key("asm", session_id, "calls")))
            rest = fields(await self._redis.hgetall(self._key("asm", session_id)))
        conflict = text(rest["conflict"]) if "conflict" in rest else None
        return Parts({int(n): body for n, body in calls.items()}, rest.get("sealed"), rest.get("outcome"), conflict)

    async def open_group(self, group_id: str, info: bytes, now: float) -> bool:
        """Notes that a group exists since `now` (unix seconds); the first `info` stays. False if it is closed."""
        with store_errors("open a group"):
            keys = [self._key("grp", group_id), self._key("grp", group_id, "closed"), self._key("grps")]
            return bool(await self._open_group(keys=keys, args=[group_id, info, now]))

    async def settle(self, group_id: str, session_id: str, rollout_id: str, attempt: int, body: bytes) -> GroupState:
        """Notes what became of an attempt (the first body stays) and lets its parts expire. Returns the group as it now is."""
        with store_errors("settle an attempt"):
            await self._redis.hsetnx(self._key("grp", group_id), f"{rollout_id}/{attempt}", body)
            for key in (self._key("asm", session_id), self._key("asm", session_id, "calls")):
                await self._redis.expire(key, self._ttl)
        return await self.group(group_id)

    async def is_settled(self, group_id: str, rollout_id: str, attempt: int) -> bool:
        """Whether an attempt was settled before."""
        with store_errors("look up an attempt"):
            return bool(await self._redis.hexists(self._key("grp", group_id), f"{rollout_id}/{attempt}"))

    async def group(self, group_id: str) -> GroupState:
        """A group as it now is."""
        with store_errors("load a group"):
            known = fields(await self._redis.hgetall(self._key("grp", group_id)))
        info = known.pop("info", None)
        named = {name.rpartition("/"): body for name, body in known.items()}
        settled = {(rollout, int(attempt)): body for (rollout, _, attempt), body in named.items()}
        return GroupState(info, settled, await self.is_closed(group_id))

    async def close_group(self, group_id: str, body: bytes) -> bool:
        """Closes a group and puts `body` (its message) in the outbox, in one step. False if it was closed before."""
        with store_errors("close a group"):
            group = self._key("grp", group_id)
            keys = [group, self._key("grp", group_id, "closed"), self._key("grps"), self._key("outbox")]
            return bool(await self._close_group(keys=keys, args=[group_id, body, self._ttl, _CLOSED_S]))

    async def overdue(self, before: float) -> list[str]:
        """Open groups that were opened before a time (unix seconds), oldest first."""
        with store_errors("list groups"):
            return [text(g) for g in await self._redis.zrangebyscore(self._key("grps"), "-inf", before)]

    async def outbox(self, count: int = 100) -> list[tuple[str, bytes]]:
        """(entry id, body) of messages to be published, oldest first."""
        with store_errors("read the outbox"):
            entries = await self._redis.xrange(self._key("outbox"), count=count) or []
        return [(text(entry), fields(content)["body"]) for entry, content in entries]

    async def published(self, entry_id: str) -> None:
        """Takes an entry out of the outbox, once it is durable on the bus."""
        with store_errors("clear the outbox"):
            await self._redis.xdel(self._key("outbox"), entry_id)

    async def ends(self, session_id: str) -> tuple[bytes | None, bytes | None]:
        """The sealing and the outcome of an attempt (bodies of their messages), without its calls."""
        with store_errors("look up a session"):
            sealed, outcome = await self._redis.hmget(self._key("asm", session_id), "sealed", "outcome")
        return raw(sealed), raw(outcome)

    async def call_numbers(self, session_id: str) -> set[int]:
        """Numbers of the calls that are kept of an attempt."""
        with store_errors("list calls"):
            return {int(k) for k in await self._redis.hkeys(self._key("asm", session_id, "calls"))}

    async def end_rollout(self, group_id: str, rollout_id: str, attempt: int) -> None:
        """Notes that an attempt was the last of its rollout, whatever it was settled as; the first note stays.

        It shows in `GroupState.settled` as attempt 0, with the last attempt's number in decimal as body.
        """
        with store_errors("end a rollout"):
            await self._redis.hsetnx(self._key("grp", group_id), f"{rollout_id}/0", str(attempt))

    async def is_closed(self, group_id: str) -> bool:
        """Whether a group was closed before."""
        with store_errors("look up a group"):
            return bool(await self._redis.exists(self._key("grp", group_id, "closed")))

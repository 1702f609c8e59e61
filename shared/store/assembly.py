"""The collector's state: parts of attempts as they arrive, settled attempts of groups, and the outbox of finished groups.

Any order, any number of deliveries and any number of collectors give the same result: parts are written once, settling is
idempotent, and a group is closed by one script that writes the outbox entry in the same step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from redis.commands.core import AsyncScript

from shared.store import scripts
from shared.store.connect import Client, Keys, fields, raw, store_errors, text
from shared.store.epoch import LEASE_S, READY, Epoch, raise_if_wiped

_OPEN_S = 86400
"""Seconds after its last change for which something open is kept: as long as the bus keeps what it was made of."""
_CLOSED_S = 3 * 86400
"""Seconds for which a closed group is remembered: longer than the bus keeps a message that could open it again."""
_MOST_AT_ONCE = 256
"""Keys in one script: the store does nothing else meanwhile."""


Novelty = Literal["new", "same", "other"]
"""Whether there was nothing in a place where something is put, or the same, or something else; that stays."""


class Kept(NamedTuple):
    """Whether a call's record is new, and what was known of its attempt by then: its outcome, that it was settled."""

    kind: Novelty
    ended: bool
    settled: bool


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
    """Assembly state of one run.

    Every method raises `StoreUnavailable` when the store does not answer in time, and those that write `StoreWiped` when it
    lost the run's state.

    Args:
        client: of the store.
        run_id: of the run.
        ttl_s: seconds for which closed groups and settled attempts are kept.
        permit: what the epoch must say for anything to be written.
        lease_s: seconds after its last sign for which somebody counts as rebuilding the run's state.
    """

    def __init__(self, client: Client, run_id: str, ttl_s: float = 3600.0, permit: str = READY, lease_s: int = LEASE_S) -> None:
        self._redis = client
        self._run_id = run_id
        self._key = Keys(run_id)
        self._ttl = int(ttl_s)
        self._permit = permit
        self.epoch = Epoch(client, self._key, lease_s)
        self._keep_call = client.register_script(scripts.KEEP_CALL)
        self._put_once = client.register_script(scripts.PUT)
        self._open_group = client.register_script(scripts.OPEN_GROUP)
        self._settle = client.register_script(scripts.SETTLE)
        self._close_group = client.register_script(scripts.CLOSE_GROUP)
        self._note_closed = client.register_script(scripts.NOTE_CLOSED)

    def rebuilt_by(self, token: str) -> Assembly:
        """The same, for whoever rebuilds it under a token (see `Epoch.claim`)."""
        return Assembly(self._redis, self._run_id, self._ttl, token, self.epoch.lease_s)

    async def put_call(self, session_id: str, seq: int, body: bytes) -> Kept:
        """Keeps a call's record; a second one with another body is a conflict and is remembered as such."""
        with store_errors("keep a call"):
            keys = [self.epoch.key, self._key("asm", session_id, "calls"), self._key("asm", session_id)]
            reply = await self._keep_call(keys=keys, args=[self._permit, seq, body, _OPEN_S])
        raise_if_wiped(reply)
        kind = text(reply[0])
        return Kept("new" if kind == "new" else "same" if kind == "same" else "other", bool(reply[1]), bool(reply[2]))

    async def put_part(self, session_id: str, part: Literal["sealed", "outcome"], body: bytes) -> Novelty:
        """Keeps the sealing or the outcome of an attempt; the first one stays."""
        with store_errors("keep a part"):
            return await self._put(self._key("asm", session_id), part, body)

    async def load(self, session_id: str) -> Parts:
        """All that is known of an attempt."""
        with store_errors("load a session"):
            calls = fields(await self._redis.hgetall(self._key("asm", session_id, "calls")))
            rest = fields(await self._redis.hgetall(self._key("asm", session_id)))
        conflict = text(rest["conflict"]) if "conflict" in rest else None
        return Parts({int(n): body for n, body in calls.items()}, rest.get("sealed"), rest.get("outcome"), conflict)

    async def open_group(self, group_id: str, info: bytes, now: float) -> Literal["open", "other", "closed"]:
        """Notes that a group exists since `now` (unix seconds). Nothing is noted if it is closed, or open with `other` info."""
        with store_errors("open a group"):
            keys = [self._key("grp", group_id), self._closed(group_id), self._key("grps")]
            done = await self._run(self._open_group, keys, group_id, info, now, _OPEN_S)
        return "open" if done == "open" else "other" if done == "other" else "closed"

    async def settle(self, group_id: str, session_id: str, rollout_id: str, attempt: int, body: bytes) -> bool:
        """Notes what became of an attempt (the first body stays) and lets its parts expire. False if its group was closed
        before: then nothing is noted."""
        with store_errors("settle an attempt"):
            parts = [self._key("asm", session_id), self._key("asm", session_id, "calls")]
            keys = [self._key("grp", group_id), self._closed(group_id), *parts]
            return await self._run(self._settle, keys, f"{rollout_id}/{attempt}", body, _OPEN_S, self._ttl) == "settled"

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

    async def close_group(self, group_id: str, body: bytes, seen: GroupState) -> Literal["closed", "changed", "before"]:
        """Closes a group and puts `body` (its message) in the outbox, in one step.

        Returns `changed` if more is known of it than what was `seen` when the message was made, `before` if it was closed then.
        """
        with store_errors("close a group"):
            keys = [self._key("grp", group_id), self._closed(group_id), self._key("grps"), self._key("outbox")]
            known = len(seen.settled) + (seen.info is not None)
            done = await self._run(self._close_group, keys, group_id, body, known, self._ttl, _CLOSED_S)
        return "closed" if done == "closed" else "changed" if done == "changed" else "before"

    async def note_closed(self, group_ids: Sequence[str]) -> None:
        """Remembers that groups are closed and that their messages are on the bus."""
        with store_errors("note closed groups"):
            for first in range(0, len(group_ids), _MOST_AT_ONCE):
                keys = [self._closed(group_id) for group_id in group_ids[first : first + _MOST_AT_ONCE]]
                await self._run(self._note_closed, keys, _CLOSED_S)

    async def overdue(self, before: float) -> list[str]:
        """Open groups that were opened before a time (unix seconds), oldest first."""
        with store_errors("list groups"):
            return [text(g) for g in await self._redis.zrangebyscore(self._key("grps"), "-inf", before)]

    async def outbox(self, count: int = 100) -> list[tuple[str, bytes]]:
        """(entry id, body) of messages to be published, oldest first."""
        with store_errors("read the outbox"):
            entries = await self._redis.xrange(self._key("outbox"), count=count) or []
        return [(text(entry), fields(content)["body"]) for entry, content in entries]

    async def depths(self) -> tuple[int, int]:
        """How many groups are open, and how many messages are in the outbox."""
        with store_errors("count groups"):
            return int(await self._redis.zcard(self._key("grps"))), int(await self._redis.xlen(self._key("outbox")))

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
            await self._put(self._key("grp", group_id), f"{rollout_id}/0", str(attempt).encode())

    async def is_closed(self, group_id: str) -> bool:
        """Whether a group was closed before."""
        with store_errors("look up a group"):
            return bool(await self._redis.exists(self._closed(group_id)))

    def _closed(self, group_id: str) -> str:
        return self._key("grp", group_id, "closed")

    async def _put(self, key: str, name: str | int, body: bytes) -> Novelty:
        done = await self._run(self._put_once, [key], name, body, _OPEN_S)
        return "new" if done == "new" else "same" if done == "same" else "other"

    async def _run(self, script: AsyncScript, keys: Sequence[str], *arguments: Any) -> str:
        """The reply of a guarded script."""
        reply = await script(keys=[self.epoch.key, *keys], args=[self._permit, *arguments])
        raise_if_wiped(reply)
        return text(reply)

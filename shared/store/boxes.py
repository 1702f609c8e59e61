"""What runners in containers fetch: a spec for each sandbox, and packages, which many share; and what they leave in turn.

It opens to a ticket alone. A spec holds the secret of its rollout: it is kept encrypted, with a key that comes from the ticket,
of which the store has a hash.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from nacl.exceptions import CryptoError
from nacl.secret import SecretBox

from shared.errors import StoreUnavailable
from shared.store.connect import Client, Keys, raw, store_errors, text
from shared.store.intents import LIFE_S, secret_hash

_PACKAGE, _LEAVES = "package:", "leaves:"
LEFT_S = 6 * 3600.0
"""For which what a runner left waits for the orchestrator, which may be away for as long."""


class Boxes:
    """Boxes of one run. Every method raises `StoreUnavailable` when the store does not answer in time.

    Args:
        client: of the store.
        run_id: of the run.
        ttl_s: seconds for which a box, and a package after its last box was put, is kept.
    """

    def __init__(self, client: Client, run_id: str, ttl_s: float = LIFE_S) -> None:
        self._redis = client
        self._key = Keys(run_id)
        self._ttl = int(ttl_s)

    async def put_package(self, sha256: str, body: bytes) -> None:
        """Keeps a package; the same one twice is one."""
        with store_errors("keep a package"):
            await self._redis.set(self._key("package", sha256), body, ex=self._ttl)

    async def put(self, ticket: str, spec: bytes, packages: Mapping[str, str], leaves: Sequence[str] = ()) -> list[str]:
        """Keeps a box, unless packages of it are missing, whose hashes it gives. Doing it again puts the new one in its place.

        Args:
            ticket: that opens it.
            spec: for its runner.
            packages: hash by name.
            leaves: names of what its runner may leave.
        """
        key = self._key("box", secret_hash(ticket))
        with store_errors("keep a box"):
            wanted = sorted(set(packages.values()))
            kept = [await self._redis.expire(self._key("package", sha256), self._ttl) for sha256 in wanted]
            if missing := [sha256 for sha256, there in zip(wanted, kept, strict=True) if not there]:
                return missing
            box: dict[Any, Any] = {"spec": bytes(_lock_of(ticket).encrypt(spec))}
            box |= {_PACKAGE + name: sha256 for name, sha256 in packages.items()}
            box |= {_LEAVES + name: "" for name in leaves}
            await self._redis.hset(key, mapping=box)
            await self._redis.expire(key, self._ttl)
        return []

    async def spec(self, ticket: str) -> bytes | None:
        """The spec of a box; None if the ticket opens none."""
        with store_errors("fetch a spec"):
            kept = raw(await self._redis.hget(self._key("box", secret_hash(ticket)), "spec"))
        try:
            return None if kept is None else _lock_of(ticket).decrypt(kept)
        except CryptoError:
            raise StoreUnavailable("the store failed to fetch a spec: what it holds is not what was put there") from None

    async def package(self, ticket: str, name: str) -> bytes | None:
        """A package of a box; None if the ticket opens no box that has it."""
        with store_errors("fetch a package"):
            sha256 = await self._redis.hget(self._key("box", secret_hash(ticket)), _PACKAGE + name)
            return None if sha256 is None else raw(await self._redis.get(self._key("package", text(sha256))))

    async def awaits(self, ticket: str, name: str) -> bool:
        """Whether a runner with that ticket may leave something of that name."""
        with store_errors("look at a box"):
            return bool(await self._redis.hexists(self._key("box", secret_hash(ticket)), _LEAVES + name))

    async def leave(self, ticket: str, name: str, body: bytes) -> None:
        """Keeps what a runner leaves, in the place of what it left before, for `LEFT_S`."""
        key = self._key("left", secret_hash(ticket))
        with store_errors("keep what a runner left"):
            await self._redis.hset(key, name, body)
            await self._redis.expire(key, int(LEFT_S))

    async def left(self, ticket: str, name: str) -> bytes | None:
        """What a runner left under a name; None if it did not yet, or too long ago."""
        with store_errors("fetch what a runner left"):
            return raw(await self._redis.hget(self._key("left", secret_hash(ticket)), name))


def _lock_of(ticket: str) -> SecretBox:
    return SecretBox(hashlib.sha256(f"spec/{ticket}".encode()).digest())

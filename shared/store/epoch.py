"""Whether the store still holds what was put there.

A server that lost its data answers as if nothing had ever been. The epoch, a key that every run has, tells the two apart: while
it says `ready`, the store holds all that was put there; while it is missing, nothing may be written before the run's state was
rebuilt. Scripts that write begin with `GUARD`, so that not one step falls between the loss and its discovery.
"""

from __future__ import annotations

from shared.errors import StoreWiped
from shared.store.connect import Client, Keys, store_errors, text

READY = "ready"
LEASE_S = 10
KEPT_S = 3 * 86400
"""Seconds for which the epoch outlives the last look at it."""

WIPED = "wiped"
GUARD = f"if redis.call('GET', KEYS[1]) ~= ARGV[1] then return '{WIPED}' end\n"
"""First line of a script whose KEYS[1] is the epoch and whose ARGV[1] is what it must say."""

# KEYS: epoch   ARGV: token, seconds.  Returns who has it now.
_CLAIM = """
local now = redis.call('GET', KEYS[1])
if now and now ~= ARGV[1] then return now end
redis.call('SET', KEYS[1], ARGV[1], 'EX', ARGV[2])
return ARGV[1]
"""

# KEYS: epoch   ARGV: what it must say, what it says from now on, seconds
_MOVE = GUARD + "redis.call('SET', KEYS[1], ARGV[2], 'EX', ARGV[3])"


class Epoch:
    """The epoch of one run. Every method raises `StoreUnavailable` when the store does not answer in time.

    Attributes:
        key: in the store.
        lease_s: seconds after its last sign for which somebody counts as rebuilding.
    """

    def __init__(self, client: Client, key: Keys, lease_s: int = LEASE_S) -> None:
        self.key, self.lease_s = key("epoch"), lease_s
        self._claim = client.register_script(_CLAIM)
        self._move = client.register_script(_MOVE)

    async def claim(self, token: str) -> str:
        """Asks to rebuild. Returns `READY` if there is no need, `token` if it is now for the caller to do, else who does it."""
        with store_errors("look whether it was wiped"):
            return text(await self._claim(keys=[self.key], args=[token, self.lease_s]))

    async def renew(self, token: str) -> None:
        """Says that its rebuilding goes on. Raises `StoreWiped` when it is no longer the caller's."""
        await self._set(token, token, self.lease_s)

    async def finish(self, token: str) -> None:
        """Says that the state is there again. Raises `StoreWiped` when it was lost once more meanwhile."""
        await self._set(token, READY, KEPT_S)

    async def check(self) -> None:
        """Raises `StoreWiped` unless the store holds the run's state."""
        await self._set(READY, READY, KEPT_S)

    async def _set(self, before: str, after: str, ttl_s: int) -> None:
        with store_errors("look whether it was wiped"):
            raise_if_wiped(await self._move(keys=[self.key], args=[before, after, ttl_s]))


def raise_if_wiped(reply: object) -> None:
    """Raises `StoreWiped` if a guarded script says so."""
    if reply is not None and text(reply) == WIPED:
        raise StoreWiped("the store lost the run's state; it is being rebuilt from the bus")

"""Claim checks: bodies too large for the bus, kept by content hash."""

from __future__ import annotations

import asyncio
import hashlib

from shared.errors import FidelityError
from shared.events import BlobRef
from shared.store.connect import Client, Keys, raw, store_errors

PATIENCE_S = 30.0
"""How long a blob that is not there is waited for: the collectors put back what a wiped store lost."""
_POLL_S = 0.2


class Blobs:
    """Blobs of one run.

    Args:
        client: of the store.
        run_id: of the run.
        ttl_s: seconds for which a blob is kept.
        patience_s: how long `get` waits for a blob that is not there.
    """

    def __init__(self, client: Client, run_id: str, ttl_s: float = 3600.0, patience_s: float = PATIENCE_S) -> None:
        self._redis = client
        self._key = Keys(run_id)
        self._ttl = int(ttl_s)
        self._patience_s = patience_s

    async def put(self, body: bytes) -> BlobRef:
        """Keeps a body; the same body twice is one blob.

        Raises:
            StoreUnavailable: the store did not answer in time.
        """
        sha = hashlib.sha256(body).hexdigest()
        with store_errors("keep a blob"):
            await self._redis.set(self._key("blob", sha), body, ex=self._ttl)
        return BlobRef(key=sha, size=len(body), sha256=sha)

    async def has(self, ref: BlobRef) -> bool:
        """Whether the body behind a reference is there.

        Raises:
            StoreUnavailable: the store did not answer in time.
        """
        with store_errors("look for a blob"):
            return bool(await self._redis.exists(self._key("blob", ref.key)))

    async def get(self, ref: BlobRef) -> bytes:
        """The body behind a reference.

        Raises:
            FidelityError: it is not there, or not what was put there.
            StoreUnavailable: the store did not answer in time.
        """
        until = asyncio.get_running_loop().time() + self._patience_s
        while (body := await self._read(ref)) is None and asyncio.get_running_loop().time() < until:  # noqa: ASYNC110
            await asyncio.sleep(_POLL_S)
        if body is None or hashlib.sha256(body).hexdigest() != ref.sha256:
            raise FidelityError(f"blob {ref.key[:12]} is {'gone' if body is None else 'damaged'}")
        return body

    async def _read(self, ref: BlobRef) -> bytes | None:
        with store_errors("fetch a blob"):
            return raw(await self._redis.get(self._key("blob", ref.key)))

"""Claim checks: bodies too large for the bus, kept by content hash."""

from __future__ import annotations

import hashlib

from shared.errors import FidelityError
from shared.events import BlobRef
from shared.store.connect import Client, Keys, raw, store_errors


class Blobs:
    """Blobs of one run."""

    def __init__(self, client: Client, run_id: str, ttl_s: float = 3600.0) -> None:
        self._redis = client
        self._key = Keys(run_id)
        self._ttl = int(ttl_s)

    async def put(self, body: bytes) -> BlobRef:
        """Keeps a body; the same body twice is one blob.

        Raises:
            StoreUnavailable: the store did not answer in time.
        """
        sha = hashlib.sha256(body).hexdigest()
        with store_errors("keep a blob"):
            await self._redis.set(self._key("blob", sha), body, ex=self._ttl)
        return BlobRef(key=sha, size=len(body), sha256=sha)

    async def get(self, ref: BlobRef) -> bytes:
        """The body behind a reference.

        Raises:
            FidelityError: it expired, or is not what was put there.
            StoreUnavailable: the store did not answer in time.
        """
        with store_errors("fetch a blob"):
            body = raw(await self._redis.get(self._key("blob", ref.key)))
        if body is None or hashlib.sha256(body).hexdigest() != ref.sha256:
            raise FidelityError(f"blob {ref.key[:12]} is {'gone' if body is None else 'damaged'}")
        return body

"""Claim checks: what was put comes back, and nothing else does."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from shared.errors import FidelityError
from shared.store.blobs import Blobs
from shared.store.connect import Client
from tests.contract.store_kit import new_run


async def test_a_blob_comes_back_as_it_was_put(client: Client) -> None:
    blobs, body = Blobs(client, new_run()), bytes(range(256)) * 5000
    ref = await blobs.put(body)
    assert await blobs.put(body) == ref
    assert (ref.size, await blobs.get(ref)) == (len(body), body)


DAMAGES: dict[str, Callable[[Client, str], object]] = {
    "gone": lambda client, key: client.delete(key),
    "damaged": lambda client, key: client.set(key, b"something else"),
}


@pytest.mark.parametrize("how", DAMAGES)
async def test_a_blob_that_is_not_what_was_put_is_an_error(client: Client, how: str) -> None:
    blobs = Blobs(client, run := new_run(), patience_s=0)
    ref = await blobs.put(b"body")
    [key] = [k async for k in client.scan_iter(f"*{run}*")]
    await DAMAGES[how](client, key)  # type: ignore[misc]
    with pytest.raises(FidelityError, match=how):
        await blobs.get(ref)


async def test_a_blob_that_is_gone_is_waited_for(client: Client) -> None:
    blobs = Blobs(client, run := new_run())
    ref = await blobs.put(b"body")
    [key] = [k async for k in client.scan_iter(f"*{run}*")]
    await client.delete(key)
    assert not await blobs.has(ref)
    reading = asyncio.create_task(blobs.get(ref))
    await blobs.put(b"body")
    assert await reading == b"body"
    assert await blobs.has(ref)

"""Asks a deployment how it does: its bus, its store, its engines, and what its services say."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TypeVar

import aiohttp
import msgspec
from msgspec.structs import replace

from services.app import Ready, open_bus, open_store
from services.dev.status.model import (
    EXPECTED,
    Engine,
    Lagging,
    Service,
    Status,
    failing_of,
    judged,
    present,
    queues_of,
    with_problems,
)
from shared.bus import Load
from shared.config import Config
from shared.errors import ForgeError
from shared.keys import CLI
from shared.store.replicas import ReplicaState
from shared.store.sessions import Sessions
from shared.store.words import Words
from shared.watch.watch import STATUS
from shared.watch.word import Word

T = TypeVar("T")
WAIT_S = 3.0
"""How long bus and store may take to answer."""
_ANSWER_S = 8.0
_FAILURES = 10


async def look(config: Config, folder: Path | None = None, expected: Sequence[str] = EXPECTED) -> Status:
    """How a deployment does.

    Args:
        config: resolved; says where its bus, store and engines are.
        folder: of the run, where its services are of this machine: they are asked themselves, else the store has their words.
        expected: services of which there has to be one.
    """
    impatient = replace(
        config, bus=replace(config.bus, timeout_s=WAIT_S), store=replace(config.store, timeout_s=WAIT_S)
    )  # fmt: skip
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=_ANSWER_S)) as http:
        (load, bus), (stored, store), wrongs, own = await asyncio.gather(
            _or_why(lambda: _load(impatient)),
            _or_why(lambda: _stored(impatient)),
            asyncio.gather(*(_engine_wrong(http, address) for address in config.engine.addresses)),
            _ask_all(http, folder),
        )
    words, table = stored or ([], {})
    services = own if folder is not None else present(words, time.time())
    engines = [_engine(a, wrong, table) for a, wrong in zip(config.engine.addresses, wrongs, strict=True)]
    failures = sorted((f for s in services for f in s.word.failures), key=lambda f: -f.at)[:_FAILURES]
    status = Status(
        run_id=config.run.id, at=time.time(), bus=bus, store=store, services=services, engines=engines,
        lags=[Lagging(*lag) for lag in load.lags] if load else [], streams=load.streams if load else {},
        queues=queues_of(services), failing=failing_of(services), failures=failures,
    )  # fmt: skip
    return with_problems(status, expected)


async def _or_why(ask: Callable[[], Awaitable[T]]) -> tuple[T | None, str]:
    """What was asked for, or why it cannot be had."""
    try:
        return await ask(), ""
    except ForgeError as e:
        return None, str(e)


async def _load(config: Config) -> Load:
    bus = await open_bus(config, CLI)
    try:
        return await bus.load()
    finally:
        await bus.close()


async def _stored(config: Config) -> tuple[list[Word], dict[str, ReplicaState]]:
    store = open_store(config, CLI)
    try:
        return await Words(store, config.run.id).all(), await Sessions(store, config.run.id).replicas.look()
    finally:
        await store.aclose()


async def _ask_all(http: aiohttp.ClientSession, folder: Path | None) -> list[Service]:
    """The services of this machine, by the addresses that they left."""
    files = sorted((folder / "services").glob("*.json")) if folder else []
    return list(await asyncio.gather(*(_ask(http, file) for file in files)))


async def _ask(http: aiohttp.ClientSession, file: Path) -> Service:
    ready = msgspec.json.decode(file.read_bytes(), type=Ready)
    try:
        async with http.get(ready.url + STATUS) as reply:
            return judged(msgspec.json.decode(await reply.read(), type=Word), time.time())
    except (aiohttp.ClientError, TimeoutError, msgspec.DecodeError) as e:
        left = Word(service=file.stem, pid=ready.pid, url=ready.url)
        return Service(left, f"does not answer at {ready.url} ({str(e) or 'it takes too long'}); its log: {_log(file)}")


def _log(service_file: Path) -> Path:
    return service_file.parents[1] / "logs" / f"{service_file.stem}.jsonl"


async def _engine_wrong(http: aiohttp.ClientSession, address: str) -> str:
    try:
        async with http.get(f"{address}/health") as reply:
            return "" if reply.status == 200 else f"its /health says {reply.status}"
    except (aiohttp.ClientError, TimeoutError) as e:
        return f"does not answer ({str(e) or 'it takes too long'})"


def _engine(address: str, wrong: str, table: dict[str, ReplicaState]) -> Engine:
    state = table.get(address)
    return Engine(address, wrong, state.open, state.version, state.calls) if state else Engine(address, wrong)

"""A stack whose services say how they do, while a rollout runs and while its servers are killed."""

from __future__ import annotations

import asyncio
import json
import os
import re
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import msgspec
import pytest

from services.app import Ready
from services.dev.status.look import look
from services.dev.status.model import Status
from shared.watch.table import METRICS
from tests.e2e.stacks import LiveStack, live_stack, openforge, write_config
from tests.e2e.test_stack_rollouts import write_task
from tests.embedded import Server, nats, valkey
from tests.waiting import until

SERVICES = ("proxy", "orchestrator", "collector", "trainer", "synth")


@asynccontextmanager
async def watched_stack(folder: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[tuple[LiveStack, Server, Server]]:
    """A stack with servers of its own, that nobody starts again when they are killed."""
    bus, store = nats(folder / "nats"), valkey(folder / "valkey")
    try:
        await bus.start()
        await store.start()
        servers = (
            f'[bus]\nurl = "{bus.address.url}"\nkeys = "{bus.address.keys}"\nmax_payload = 1048576\nmax_bytes = 67108864\n'
        )
        servers += f'[store]\nurl = "{store.address.url}"\nkeys = "{store.address.keys}"\n[synth]\nenabled = true\n'
        async with live_stack(write_config(folder, servers)) as stack:
            yield stack, bus, store
    finally:
        bus.kill()
        store.kill()


async def get(stack: LiveStack, service: str, path: str) -> tuple[int, bytes]:
    """What a service answers."""
    ready = msgspec.json.decode((stack.folder / "services" / f"{service}.json").read_bytes(), type=Ready)
    async with aiohttp.ClientSession() as http, http.get(ready.url + path) as reply:
        return reply.status, await reply.read()


async def missing(stack: LiveStack, expected: dict[str, set[str]]) -> None:
    """Waits until the services miss what is expected."""
    async with asyncio.timeout(90):
        while True:
            told = await asyncio.gather(*(get(stack, s, "/readyz") for s in SERVICES))
            answers = dict(zip(SERVICES, told, strict=True))
            found = {s: set(json.loads(body)["missing"]) for s, (_, body) in answers.items()}
            if found == expected:
                assert all((code == 200) == (not found[s]) for s, (code, _) in answers.items())
                return
            await asyncio.sleep(0.2)


@pytest.mark.timeout(300)  # mostly for a busy machine: nine processes, and servers that come and go
async def test_a_stack_says_how_it_does_whatever_becomes_of_its_servers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = write_task(tmp_path, "write", "cat seed.txt > out.txt", "seed")
    async with watched_stack(tmp_path, monkeypatch) as (stack, bus, store):
        code, out = await openforge("rollout", str(task), "--root", str(stack.folder.parent), "-n", "2")
        assert code == 0, out
        await check_metrics(stack)
        await check_healthy(stack)
        for file in (stack.folder / "services").iterdir():
            os.utime(file, (0, 0))
        store.kill()
        await missing(stack, {s: {"store"} for s in SERVICES})
        found = await look(stack.config, stack.folder)
        assert (bool(found.store), found.bus) == (True, "")
        await store.start()
        await missing(stack, {s: set() for s in SERVICES})
        bus.kill()
        await missing(stack, {s: {"bus"} for s in SERVICES})
        code, out = await openforge("status", "--root", str(stack.folder.parent))
        assert (code, "broken: bus: NATS at" in out, "broken: trainer: bus:" in out) == (1, True, True), out
        await bus.start()
        await missing(stack, {s: set() for s in SERVICES})
        services = list((stack.folder / "services").iterdir())  # by which whoever prunes runs knows that they live
        await until(lambda: all(time.time() - file.stat().st_mtime < 600 for file in services))
        await check_hanging(stack)


async def check_metrics(stack: LiveStack) -> None:
    """Each service shows its metrics, and no others of ours; what happened is counted."""
    pages = {s: (await get(stack, s, "/metrics"))[1].decode() for s in SERVICES}
    for service, page in pages.items():
        shown = set(re.findall(r"^# TYPE (openforge_\w+)", page, re.M))
        assert shown == {m.name for m in METRICS if service in m.services}
        assert "process_resident_memory_bytes" in page
    assert sample(pages["proxy"], "openforge_calls_total", 'delivery="sent"') >= 2
    assert sample(pages["proxy"], "openforge_call_added_seconds_count") >= 2
    assert sample(pages["proxy"], "openforge_engine_open") == 1
    assert sample(pages["orchestrator"], "openforge_rollouts_ended_total", 'outcome="finished"', 'stage="verify"') == 2
    assert sample(pages["orchestrator"], "openforge_rollouts{", 'state="running"') == 0
    assert sample(pages["collector"], "openforge_stream_messages", 'stream="FORGE-CALLS"') >= 2
    assert sample(pages["collector"], "openforge_consumer_lag", 'consumer="collector-calls"') == 0


def sample(page: str, *parts: str) -> float:
    """The value of the one line that has all parts."""
    [line] = [line for line in page.splitlines() if not line.startswith("#") and all(part in line for part in parts)]
    return float(line.rpartition(" ")[2])


async def check_healthy(stack: LiveStack) -> None:
    code, out = await openforge("status", "--root", str(stack.folder.parent), "--json")
    assert code == 0, out
    found = msgspec.json.decode(out.splitlines()[-1], type=Status)
    assert found.problems == []
    assert {s.name for s in found.services} == set(SERVICES)
    assert found.engines[0].open
    assert {lag.consumer for lag in found.lags} >= {"collector-calls", "orchestrator", "trainer", "archive"}
    away = await look(stack.config)  # as of a deployment elsewhere: by what its services say in the store
    assert away.problems == []
    assert {s.word.url for s in away.services} == {s.word.url for s in found.services}


async def check_hanging(stack: LiveStack) -> None:
    """A service that hangs is broken, though its process is there."""
    collector = stack.service("collector")
    collector.suspend()
    try:
        found = await look(stack.config, stack.folder)
    finally:
        collector.resume()
    assert [p.partition(":")[0] for p in found.problems] == ["collector"]

"""How busy the bus is and what services say of themselves: the same of the real servers and of their twins."""

from __future__ import annotations

import asyncio

from shared.events import CallRecorded, RolloutFailed
from shared.store.assembly import Assembly
from shared.store.connect import Client
from shared.store.words import Words, answers
from shared.watch.word import Failure, Sample, Word
from tests.contract.bus_kit import AnyBus, Log, call, failed
from tests.contract.store_kit import new_run


async def test_a_consumer_lags_by_what_it_has_not_acknowledged(bus: AnyBus, run_id: str) -> None:
    free = asyncio.Event()

    async def slow(message: object) -> None:
        await free.wait()

    before = (await bus.load()).streams["FORGE-CALLS"][0]
    await bus.consume("slow", [CallRecorded], slow, run_id=run_id)
    await bus.consume("quick", [RolloutFailed], Log(), run_id=run_id)
    for n in range(1, 4):
        await bus.publish(call(run_id, n))
    await bus.publish(failed(run_id))
    await _lags(bus, {"slow": 3, "quick": 0})
    load = await bus.load()
    assert {lag.stream for lag in load.lags} == {"FORGE-CALLS", "FORGE-EVENTS"}
    messages, size = load.streams["FORGE-CALLS"]
    assert messages - before == 3
    assert size > 0
    free.set()
    await _lags(bus, {"slow": 0, "quick": 0})


async def _lags(bus: AnyBus, expected: dict[str, int]) -> None:
    async with asyncio.timeout(10):
        while {lag.consumer: lag.messages for lag in (await bus.load()).lags} != expected:  # noqa: ASYNC110
            await asyncio.sleep(0.02)


async def test_a_process_has_one_word_its_last(client: Client) -> None:
    words = Words(client, new_run())
    failure = Failure(1.0, "r1", 1, "ImageError", "pull", "no image", final=False)
    first, last = (Word(service="proxy", host="h", pid=1, at=float(n), metrics=[Sample("ready", [], n)]) for n in range(2))
    other = Word(service="orchestrator", host="h", pid=2, missing={"bus": "no"}, failures=[failure])
    for word in (first, other, last):
        await words.say(word)
    assert sorted(await words.all(), key=lambda w: w.service) == [other, last]
    await words.leave(last.id)
    await words.leave(last.id)
    assert await words.all() == [other]
    assert await Words(client, new_run()).all() == []


async def test_a_store_that_is_there_answers(client: Client) -> None:
    await answers(client)


async def test_open_groups_and_the_outbox_are_counted(assembly: Assembly) -> None:
    assert await assembly.depths() == (0, 0)
    for group in ("g1", "g2"):
        await assembly.open_group(group, b"{}", 1.0)
    await assembly.close_group("g1", b"{}", await assembly.group("g1"))
    assert await assembly.depths() == (1, 1)

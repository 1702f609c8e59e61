"""Bad messages of every kind on the subject of every type: each becomes a dead letter, and holds up nobody."""

from __future__ import annotations

import asyncio

import pytest

from shared.events import MESSAGES, Message, tag_of
from tests.contract.bus_kit import AnyBus, Log
from tests.garbage import bad, sample
from tests.waiting import until


@pytest.mark.parametrize("kind", MESSAGES, ids=tag_of)
async def test_all_that_is_bad_becomes_dead_letters_and_the_good_is_handled(
    bus: AnyBus, run_id: str, kind: type[Message]
) -> None:
    log, spoilt, good = Log(), bad(kind, run_id), sample(kind, run_id)
    await bus.consume("watch", [kind], log, run_id=run_id, concurrency=4)
    await asyncio.gather(*(bus.publish_raw(subject, body, f"{run_id}/{why}") for why, (subject, body) in spoilt.items()))
    await bus.publish(good)
    await until(lambda: bus.counts == {"dead": len(spoilt), "handled": 1}, 60)
    assert log.got == [good]
    letters = await bus.dead_letters()
    assert sorted((x.subject, x.data) for x in letters) == sorted(spoilt.values())
    assert all(x.reason and x.consumer.startswith("watch") and x.size == len(x.data) for x in letters)
    assert sorted({x.number for x in letters}) == [x.number for x in letters]

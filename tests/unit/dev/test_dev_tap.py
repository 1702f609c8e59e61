"""What a tap shows, on the bus's twin."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from services.dev import tap
from services.dev.recordings import line_of, recorded
from services.dev.tap import Wish, feed
from services.dev.times import seconds
from shared.bus import Tapped
from shared.bus.memory import MemoryBus
from shared.errors import ConfigError
from shared.events import (
    RolloutFailed,
    encode,
)
from shared.subjects import subject_of, tap_pattern
from tests.contract.bus_kit import call, failed
from tests.unit.dev.rollout_story import one_rollout
from tests.waiting import until


async def test_what_was_kept_comes_first_and_nothing_comes_twice() -> None:
    bus = MemoryBus()
    for n in range(3):
        await bus.publish(failed("run1", n))
    seen: list[str] = []

    async def watch() -> None:
        async for _, tapped in feed(bus, tap_pattern("", "run1"), 0.0):
            assert isinstance(tapped.message, RolloutFailed)
            seen.append(tapped.message.rollout_id)
            if len(seen) == 2:  # while the history is read
                await bus.publish(failed("run1", 3))
                await asyncio.sleep(0)

    watching = asyncio.create_task(watch())
    await until(lambda: len(seen) >= 3)
    await bus.publish(failed("run1", 4))
    await until(lambda: "r4" in seen)
    watching.cancel()
    await asyncio.gather(watching, return_exceptions=True)
    assert seen == ["r0", "r1", "r2", "r3", "r4"]


async def test_a_rollout_is_followed_from_its_first_message_to_its_last(capsys: pytest.CaptureFixture[str]) -> None:
    bus = MemoryBus()
    told = one_rollout()
    for message in told[:2]:
        await bus.publish(message)
    await bus.publish(failed("run1", 7))
    following = asyncio.create_task(tap._show(bus, "run1", Wish(rollout_id="g-r0", follow=True, as_lines=True), None))
    await asyncio.sleep(0.01)
    assert not following.done()
    for message in told[2:]:
        await bus.publish(message)
    assert await asyncio.wait_for(following, 5) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["type"] for line in lines] == [
        "rollout.scheduled", "rollout.failed", "rollout.finished", "trajectory.assembled",
    ]  # fmt: skip
    assert {line["rollout_id"] for line in lines} == {"run1-g-r0"}


@pytest.mark.parametrize(("text", "expected"), [("90s", 90.0), ("10m", 600.0), ("1.5h", 5400.0), ("1d", 86400.0)])
def test_a_span_is_read(text: str, expected: float) -> None:
    assert seconds(text, "--since") == expected


@pytest.mark.parametrize("text", ["10", "m", "-5m", "10 m", "10min"])
def test_what_is_no_span_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="10m"):
        seconds(text, "--since")


def test_what_was_recorded_is_read_back_as_it_was(tmp_path: Path) -> None:
    message = call("run1", 1)
    tapped = [Tapped(subject_of(message), message, encode(message)), Tapped("forge.v1.evt.x.y.r.k", None, b"\xff\n{}")]
    file = tmp_path / "tap.jsonl"
    file.write_bytes(b"".join(line_of(t, 5.0 + n) + b"\n" for n, t in enumerate(tapped)) + b'{"at":')
    assert [(r.at, r.subject, r.body) for r in recorded(file)] == [(5.0 + n, t.subject, t.data) for n, t in enumerate(tapped)]
    assert json.loads(file.read_bytes().splitlines()[0])["message"]["type"] == "call.recorded"


@pytest.mark.parametrize(
    "line", ["no json", "{}", '{"at": 1, "subject": "a b"}', '{"at": -1, "subject": "a"}', '{"at": 1, "subject": ">"}']
)
def test_a_line_that_is_no_message_is_named(tmp_path: Path, line: str) -> None:
    file = tmp_path / "tap.jsonl"
    file.write_text(f"{line}\n")
    with pytest.raises(ConfigError, match=r"tap.jsonl, line 1"):
        list(recorded(file))

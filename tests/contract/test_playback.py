"""A recording is put on a bus of its own, and tapped there."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from services.dev.playback import playback
from services.dev.recordings import line_of
from services.dev.tap import Wish, tap
from shared.bus import Tapped
from shared.events import encode
from shared.subjects import subject_of
from tests.contract.bus_kit import call
from tests.unit.dev.rollout_story import one_rollout
from tests.waiting import until


async def test_a_recorded_rollout_is_followed_on_another_bus(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, copy, said = tmp_path / "tap.jsonl", tmp_path / "copy.jsonl", list[str]()
    told = [*one_rollout()[:3], call("run1", 1), *one_rollout()[3:]]
    lines = [line_of(Tapped(subject_of(m), m, encode(m)), float(n)) for n, m in enumerate(told)]
    lines.append(line_of(Tapped("of.a.stranger", None, b"?"), 9.0))
    file.write_bytes(b"".join(line + b"\n" for line in lines))
    playing = asyncio.create_task(playback(file, 0))

    def stands() -> bool:
        said.extend(capsys.readouterr().err.splitlines())
        return len(said) == 2

    await until(stands, 60)
    assert said[1].startswith("5 messages are on the bus, 1 are of no stream")
    root = Path(said[0].split()[-3])
    assert await tap(root, "", None, Wish(rollout_id="g-r0", follow=True, as_lines=True)) == 0
    shown = [json.loads(line)["type"] for line in capsys.readouterr().out.splitlines()]
    assert shown == ["rollout.scheduled", "rollout.failed", "rollout.finished", "trajectory.assembled"]
    assert await tap(root, "", None, Wish(rollout_id="g-r0", follow=True, record=copy)) == 0
    kept = [line.partition(b",")[2] for line in copy.read_bytes().splitlines()]
    assert kept == [lines[n].partition(b",")[2] for n in (0, 1, 2, 4)]  # but for the times
    playing.cancel()
    await asyncio.gather(playing, return_exceptions=True)
    assert not root.exists()

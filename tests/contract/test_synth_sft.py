"""`openforge synth sft`: successes of a teacher become rows, less those that a judge does not want learned from."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from services.collector.archive import FOLDER, Segments
from shared.config import Config, RunConfig
from shared.events import encode
from tests.e2e.stacks import openforge
from tests.scripted_models import KEY, Act, Asked, ScriptedModels, said
from tests.unit.collector.rollouts import RUN
from tests.unit.dev.histories import messages

pytestmark = [pytest.mark.real, pytest.mark.slow]
JUDGE = """
[synth.models.judge]
model = "m-1"
api = "anthropic"
base_url = "{url}"
key_env = "THE_KEY"
"""


@pytest.fixture
async def server(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[ScriptedModels]:
    monkeypatch.setenv("THE_KEY", KEY)
    made = ScriptedModels(lambda _: said({"keep": True, "why": "it looked first"}))
    await made.start()
    yield made
    await made.stop()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A folder with one run of a teacher."""
    folder = tmp_path / "runs" / RUN
    Segments(folder / FOLDER).append([encode(m) for m in messages()])
    (folder / "config.json").write_bytes(msgspec.json.encode(Config(run=RunConfig(id=RUN, root=str(folder.parent)))))
    return folder.parent


async def rows(root: Path, *args: str, code: int = 0) -> list[dict[str, object]]:
    status, told = await openforge("synth", "sft", RUN, "--root", str(root), *args)
    assert status == code, told
    return [json.loads(line) for line in (root / RUN / "exports" / "sft" / "train.jsonl").read_text().splitlines()]


async def test_without_a_judge_all_successes_are_kept_and_no_failure(root: Path) -> None:
    kept = await rows(root)
    assert kept
    assert {row["reward"] for row in kept} == {1.0}
    assert len(await rows(root, "--min-reward", "0")) > len(kept)


async def test_a_judge_is_shown_each_success_once_and_what_he_turns_down_is_left_out(
    root: Path, tmp_path: Path, server: ScriptedModels
) -> None:
    (tmp_path / "judge.toml").write_text(JUDGE.format(url=server.url))
    judge = ("--judge", str(tmp_path / "judge.toml"), "--min-reward", "0")
    everything, asked = await rows(root, *judge), len(server.asked)
    assert asked == len({row["rollout_id"] for row in everything}) > 1
    assert all("[user]" in one.prompt for one in server.asked)
    assert await rows(root, *judge) == everything
    assert len(server.asked) == asked, "what was answered is not asked again"

    def picky(one: Asked) -> Act:
        return said({"keep": len(server.asked) > asked + 1, "why": "it guessed"})

    server.script = picky
    for file in (root / RUN / "synth" / "answers").rglob("*.json"):
        file.unlink()
    fewer = await rows(root, *judge)
    opinions = json.loads((root / RUN / "exports" / "sft" / "judged.json").read_text())
    assert {row["rollout_id"] for row in fewer} == {one["rollout_id"] for one in opinions if one["keep"]}
    assert sum(not one["keep"] for one in opinions) == 1
    assert opinions[0]["why"] == "it guessed"

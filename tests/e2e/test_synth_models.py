"""`openforge synth` with models: an endpoint that is at times malformed, cut off, refusing, late and busy has tasks made, whose
planted defect is found by the gates and mended by the model, though synth is killed meanwhile; all but the models is real."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import signal
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.e2e.stacks import find_service, openforge, start
from tests.scripted_models import KEY, Act, Asked, ScriptedModels
from tests.scripted_office import number_of, office
from tests.waiting import until

pytestmark = [pytest.mark.real, pytest.mark.slow]
COUNT, REFUSED, GIVEN = 4, 3, 5
"""Proposals, which of them the model will have nothing to do with, and answers that it gives before synth is killed."""
REFUSALS = [{"gate": "maker", "reason": "no-proposal", "tasks": [f"n{REFUSED:05}"]}]
SETTINGS = """
[run]
root = "runs"
[bus]
ack_wait_s = 2
[orchestrator]
concurrency = 2
[synth]
generator = "models"
domains = ["claw"]
count = {count}
to = "made"
[synth.budget]
max_usd = 5.0
[synth.gates]
repeats = 1
[synth.models]
seeds = "ideas.txt"
[synth.models.builder]
model = "m-1"
api = "{api}"
base_url = "{url}"
key_env = "THE_KEY"
usd_per_mtok_in = 1.0
usd_per_mtok_out = 4.0
timeout_s = 120.0
"""


class Moody:
    """Answers well in the end: the first call about a task is busy, late or breaks off, the next ones have something wrong.

    Attributes:
        left: answers that it gives before it lets everybody wait.
    """

    def __init__(self) -> None:
        self.seen: Counter[str] = Counter()
        self.left = GIVEN

    def __call__(self, asked: Asked) -> Act:
        act = self._act(asked)
        self.left -= act.status == 200 and not act.drop
        return act if self.left >= 0 else Act(late_s=300.0)

    def _act(self, asked: Asked) -> Act:
        number = number_of(asked)
        self.seen[kind := f"{number} {sorted((asked.schema or {})['properties'])[0]}"] += 1
        act = office(asked, spoilt=number == 1)
        match number, self.seen[kind]:
            case 0, 1:
                return Act("slow down", status=429, headers={"retry-after": "0.2"})
            case 0, 2:
                return Act(act.text[: len(act.text) // 2], end="cut")
            case 1, 1:
                return Act("overloaded", status=503)
            case 1, 2:
                return Act(act.text, late_s=0.5)
            case 2, 1:
                return Act("Certainly! Here is the task: {")
            case 2, 3:
                return Act(drop=True)
            case 3, _:
                return Act("I will have nothing to do with doors.", end="refused")
        return act


@pytest.fixture
async def server(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[ScriptedModels]:
    if not shutil.which("bwrap"):
        pytest.fail("bubblewrap is missing: apt-get install -y bubblewrap")
    monkeypatch.setenv("THE_KEY", KEY)
    made = ScriptedModels(Moody())
    await made.start()
    yield made
    await made.stop()


@pytest.mark.timeout(600)
async def test_tasks_of_a_moody_model_are_made_tried_mended_and_accepted(server: ScriptedModels, tmp_path: Path) -> None:
    (tmp_path / "ideas.txt").write_text("a doorman who forgets codes\n")
    file = tmp_path / "synth.toml"
    file.write_text(SETTINGS.format(count=COUNT, api="openai", url=f"{server.url}/v1"))
    told = await _killed_meanwhile(file, server)
    code, told = await openforge("synth", "status", "--json", "--root", str(tmp_path / "runs"))
    found = json.loads(told)
    assert (code, found["reached"]["accepted"], found["refined"], found["turned_down"]) == (0, COUNT - 1, 1, REFUSALS), told
    assert Counter(server.answered).most_common(1)[0][1] == 1
    assert found["calls"] == len(server.answered)
    assert found["usd"] == pytest.approx(found["calls"] * 300e-6)
    known = [json.loads(path.read_text()) for path in sorted((tmp_path / "made" / ".known").glob("*.json"))]
    assert {one["proposal"]["lineage"]["source"].partition(" sha256:")[0] for one in known} == {"scenario ideas-0"}
    assert sorted(one["rounds"] for one in known) == [0, 0, 1]
    named = {key for one in known for key in one["proposal"]["lineage"]["calls"]}
    refused = {path.stem for path in _answers(tmp_path)} - named
    assert len(refused) == 1  # each other answer shaped a task that was accepted
    (refining,) = {asked.prompt for asked in server.asked if "cause" in (asked.schema or {})["properties"]}
    assert "Gate: null" in refining
    assert "null-passes" in refining


def _answers(folder: Path) -> list[Path]:
    return list(folder.glob("runs/*/synth/answers/*/*.json"))


async def _killed_meanwhile(file: Path, server: ScriptedModels) -> str:
    """Runs synth, kills its service once some calls are answered and others wait, and returns what the command said."""
    moody = server.script
    assert isinstance(moody, Moody)
    process = await start("synth", str(file))
    try:
        await until(lambda: moody.left < 0 and len(_answers(file.parent)) == len(server.answered) == GIVEN, 180)
        os.kill(find_service(process.pid, "synth").pid, signal.SIGKILL)
        moody.left = 1000
        out, _ = await asyncio.wait_for(process.communicate(), 400)
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
    assert process.returncode == 0, out.decode()
    return out.decode()

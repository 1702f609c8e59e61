"""The gates over real sandboxes: each way to spoil a task is caught by the gate that should, and a sound one passes all."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest
from msgspec.structs import replace

from services.dev.tasks.trials import trials
from services.synth.gates import gates_of
from services.synth.gates.repeats import Repeats
from services.synth.gates.texts import text_of
from services.synth.model import Verdict
from services.synth.ports import Room, Trials
from shared.config import Config, OrchestratorConfig
from tests.bench.synth.defects import DEFECTS, Defect
from tests.unit.orchestrator.runners import isolation_of
from tests.unit.synth.gatehouse import GOOD, PROPOSAL, Shelf, good

pytestmark = [pytest.mark.slow, pytest.mark.real]
HELD = "Write the largest of the prices in the ledger, with its currency as the ledger has it and nothing else, to most.txt.\n"
SOUND = """[task]
name = "demo/add-1"
[metadata.initial]
there = ["numbers.txt"]
absent = ["sum.txt"]
"""
SEED = 4


@pytest.fixture(autouse=True)
def bubblewrap() -> None:
    isolation_of("bubblewrap")


async def verdicts(folder: Path, running: Trials, pool: Shelf) -> list[Verdict]:
    """What the gates say, up to the first that fails it."""
    said: list[Verdict] = []
    proposal, evidence = replace(PROPOSAL, task_id=folder.name), folder.parent / f"{folder.name}.evidence"
    evidence.mkdir()
    for gate in gates_of(Config()):
        said.append(await gate.judge(proposal, folder, Room(running, pool, evidence, {})))
        if said[-1].outcome == "failed":
            break
    return said


def spoiled(defect: Defect, top: Path, bases: dict[str, Path]) -> Path:
    """A folder with the defect."""
    folder = shutil.copytree(bases[defect.of], top / defect.name)
    defect.spoil(folder, Random(SEED))
    return folder


async def test_every_defect_is_caught_by_the_gate_that_should_and_a_sound_task_passes(tmp_path: Path) -> None:
    bases = {
        "any": good(tmp_path / "sound", **{"task.toml": SOUND}),
        "pool": good(tmp_path / "pool", **{"environment/numbers.txt": "40\n2\n", "task.toml": "[task]\nname = 'demo/add-2'\n"}),
        "evaluation": good(tmp_path / "held", **{"environment/ledger": "9 EUR\n", "instruction.md": HELD}),
    }
    pool = Shelf([text_of(bases["pool"])], [text_of(bases["evaluation"])])
    folders = [bases["any"], *(spoiled(defect, tmp_path, bases) for defect in DEFECTS)]
    async with trials(OrchestratorConfig()) as running:
        said = await asyncio.gather(*(verdicts(folder, running, pool) for folder in folders))
    assert {verdict.gate for verdict in said[0] if verdict.outcome == "failed"} == set(), said[0][-1].detail
    assert {verdict.gate for verdict in said[0] if verdict.outcome == "skipped"} == {"build", "rubric", "difficulty"}
    wrong = {
        defect.name: (last[-1].gate, last[-1].reason, last[-1].detail)
        for defect, last in zip(DEFECTS, said[1:], strict=True)
        if last[-1].outcome != "failed" or last[-1].gate not in defect.gates
    }
    assert wrong == {}


async def test_agents_that_sleep_are_shown_other_times_like_all_others(tmp_path: Path) -> None:
    solve = GOOD["solution/solve.sh"] + "\n/usr/bin/python3 -c 'import time; time.sleep(0.1)' || rm sum.txt\n"
    folder = good(tmp_path / "sleeps", **{"solution/solve.sh": solve})
    async with trials(OrchestratorConfig()) as running:
        verdict = await Repeats(2).judge(PROPOSAL, folder, Room(running, Shelf(), tmp_path, {}))
    assert (verdict.outcome, verdict.detail) == ("passed", "2 runs of each agent, alike")


def test_the_gates_are_asked_about_a_folder_of_tasks(tmp_path: Path) -> None:
    good(tmp_path / "set" / "one")
    good(tmp_path / "held" / "other", **{"environment/ledger": "9 EUR\n", "instruction.md": HELD})
    command = ["tasks", "check", str(tmp_path / "set"), "--gates", "--heldout", str(tmp_path / "held"), "--json"]
    done = subprocess.run(
        [sys.executable, "-m", "services.cli", *command], capture_output=True, text=True, timeout=110, check=False
    )
    assert done.returncode == 0, done.stderr
    task = json.loads(done.stdout)["tasks"][0]
    assert {verdict["gate"] for verdict in task["verdicts"] if verdict["outcome"] == "passed"} >= {
        "contamination",
        "oracle",
        "cheat",
    }

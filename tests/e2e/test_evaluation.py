"""`openforge eval` as a process: a real stack on the scripted engine, tasks of every outcome, and its report."""

from __future__ import annotations

import asyncio
import json
import signal
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.e2e.stacks import openforge, start, write_config
from tests.waiting import until

pytestmark = [pytest.mark.real, pytest.mark.slow, pytest.mark.timeout(240)]

RIGHT = '[ "$(cat out.txt 2>/dev/null)" = yes ]'
VERDICT = f'if {RIGHT}; then echo 1; else echo 0; fi > "${{LOGS_DIR:-/logs}}/verifier/reward.txt"'


def write_task(folder: Path, name: str, command: str, *, verifier: str = VERDICT, limit_s: float = 40) -> None:
    task = folder / name
    for sub in ("environment", "tests"):
        (task / sub).mkdir(parents=True)
    (task / "task.toml").write_text(f'schema_version = "1.4"\n[task]\nname = "test/{name}"\n[agent]\ntimeout_sec = {limit_s}\n')
    (task / "instruction.md").write_text(f"DO: {command}\n")
    (task / "tests" / "test.sh").write_text(f"{verifier}\n")


def make_tasks(folder: Path) -> Path:
    """Two that are solved, one that is not, one that runs out of time, one whose verifier is broken."""
    write_task(folder, "right-1", "echo yes > out.txt")
    write_task(folder, "right-2", "echo yes > out.txt")
    write_task(folder, "wrong-1", "echo no > out.txt")
    write_task(folder, "slow-1", "sleep 60", limit_s=2)
    write_task(folder, "broken-1", "true", verifier="true")
    return folder


async def evaluate(tmp_path: Path, tasks: Path, *args: str) -> tuple[dict[str, Any], Path]:
    """Runs the verb; its report and its run folder. Episodes were lost, hence the exit status."""
    config = write_config(tmp_path)
    known = set((tmp_path / "runs").glob("*"))
    code, out = await openforge("eval", str(config), "--tasks", str(tasks), *args, timeout_s=150)
    assert code == 1, out
    (folder,) = set((tmp_path / "runs").glob("*")) - known
    return json.loads((folder / "eval.json").read_text()), folder


async def test_tasks_of_every_outcome_are_counted_as_what_they_are(tmp_path: Path) -> None:
    tasks = make_tasks(tmp_path / "tasks")
    report, folder = await evaluate(tmp_path, tasks, "-n", "2", "--harness", "react")
    assert report["outcomes"] == {"VerifierError": 2, "finished": 6, "timed_out": 2}
    whole, *families = report["scores"]
    assert (whole["tasks"], whole["episodes"], whole["solved"], whole["unscored"]) == (4, 8, 4, 2)
    assert [whole["pass_at"]["1"]["value"], whole["pass_all"]["2"]["value"]] == [0.5, 0.5]
    assert whole["pass_at"]["1"]["low"] < 0.5 < whole["pass_at"]["1"]["high"]
    assert {f["family"]: f["solved"] for f in families} == {"test/broken": 0, "test/right": 4, "test/slow": 0, "test/wrong": 0}
    rows = [json.loads(line) for line in (folder / "episodes.jsonl").read_text().splitlines()]
    assert len(rows) == 10
    assert [r["calls"] for r in rows if r["task"] == "test/right-1"] == [2, 2]
    assert {r["reward"] for r in rows if r["task"] == "test/broken-1"} == {None}
    assert {r["reward"] for r in rows if r["task"] == "test/slow-1"} == {0.0}

    write_task(tmp_path / "tasks", "wrong-2", "echo yes > out.txt")
    (tmp_path / "tasks" / "wrong-1" / "instruction.md").write_text("DO: echo yes > out.txt\n")
    _, later = await evaluate(tmp_path, tasks, "-n", "2")
    code, out = await openforge("eval", "compare", folder.name, later.name, "--root", str(tmp_path / "runs"))
    assert code == 0, out
    assert "+0.250" in out, out
    assert "1 tasks are scored only in B and left out: test/wrong-2" in out, out
    assert "1 tasks are of one name but not of the same content" in out, out


async def test_ctrl_c_ends_everything_and_leaves_the_episodes_that_ended(tmp_path: Path) -> None:
    for n in range(3):
        write_task(tmp_path / "tasks", f"right-{n}", "echo yes > out.txt")
    write_task(tmp_path / "tasks", "slow", "sleep 100", limit_s=200)
    process = await start("eval", str(write_config(tmp_path)), "--tasks", str(tmp_path / "tasks"))
    await until(lambda: sum(len(f.read_text().splitlines()) for f in tmp_path.glob("runs/*/episodes.jsonl")) == 3, 90)
    family = psutil.Process(process.pid).children(recursive=True)
    process.send_signal(signal.SIGINT)
    out, _ = await asyncio.wait_for(process.communicate(), 60)
    assert process.returncode == 130, out.decode()
    assert "Episodes that ended" in out.decode()
    assert not [p for p in family if p.is_running() and p.status() != psutil.STATUS_ZOMBIE]

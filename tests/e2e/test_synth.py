"""`openforge synth` with real servers, a real orchestrator and real sandboxes: killed, interrupted, resumed, looked at."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import signal
from pathlib import Path

import pytest

from services.dev.stack import find_running
from services.synth.books import Books
from shared.config import Config
from shared.errors import ConfigError
from shared.task import load_task
from tests.e2e.stacks import find_service, openforge, start
from tests.e2e.synth_maker import FOLDER
from tests.waiting import until

pytestmark = [pytest.mark.real, pytest.mark.slow]
COUNT = 5
SETTINGS = f"""
[run]
root = "runs"
[bus]
ack_wait_s = 2
[orchestrator]
concurrency = 2
[synth]
generator = "tests.e2e.synth_maker:maker"
count = {COUNT}
to = "made"
[synth.gates]
repeats = 1
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    if not shutil.which("bwrap"):
        pytest.fail("bubblewrap is missing: apt-get install -y bubblewrap")
    monkeypatch.setenv(FOLDER, str(tmp_path))
    (tmp_path / "synth.toml").write_text(SETTINGS)
    return tmp_path / "synth.toml"


def accepted(folder: Path) -> list[str]:
    return sorted(path.parent.name for path in folder.glob("made/[!.]*/task.toml"))


def running(folder: Path) -> Config | None:
    with contextlib.suppress(ConfigError):
        return find_running(folder / "runs")[0]
    return None


@pytest.mark.timeout(420)
async def test_synth_is_killed_interrupted_and_resumed_and_no_task_is_lost_or_built_twice(file: Path) -> None:
    root = ("--root", str(file.parent / "runs"))
    code, said = await openforge("synth", str(file), "--dry-run")
    assert (code, f"{COUNT} proposals" in said) == (0, True), said
    process = await start("synth", str(file))
    try:
        await until(lambda: bool(accepted(file.parent)), 150)
        os.kill(find_service(process.pid, "synth").pid, signal.SIGKILL)
        await until(lambda: len(accepted(file.parent)) >= 2 or process.returncode is not None, 150)
        config = running(file.parent)
        process.send_signal(signal.SIGINT)
        out, _ = await asyncio.wait_for(process.communicate(), 60)
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
    assert (process.returncode, "openforge synth resume" in out.decode()) == (130, True), out.decode()
    assert config is not None
    before = {trial.name for trial in Books(config).trials.glob("*.json")}
    more = ("--set", "synth.budget.max_rollouts=500")
    code, said = await openforge("synth", "resume", config.run.id, *more, *root, timeout_s=200)
    assert code == 0, said
    built = (file.parent / "built.txt").read_text().split()
    assert len(accepted(file.parent)) == COUNT, said
    assert set(built) == set(accepted(file.parent))
    assert len(built) <= COUNT + 2 * config.synth.parallel, "only what was being built is built anew"
    assert before <= {trial.name for trial in Books(config).trials.glob("*.json")}
    await _look(file, config, *root)


async def _look(file: Path, config: Config, *root: str) -> None:
    code, said = await openforge("synth", "status", "--json", *root)
    found = json.loads(said)
    assert (code, found["reached"]["accepted"], found["under_way"], found["held"]) == (0, COUNT, 0, {})
    name = accepted(file.parent)[0]
    code, said = await openforge("synth", "show", name, *root)
    assert (code, load_task(file.parent / "made" / name).instruction.split()[-1] in said) == (0, True)
    code, said = await openforge("synth", "show", "no-such-task", *root)
    assert (code, f"(n00000 to n{COUNT - 1:05})" in said) == (2, True)
    code, said = await openforge("synth", "report", "--to", str(file.parent / "report"), *root)
    assert code == 0
    assert "<svg" in (file.parent / "report" / "report.html").read_text()
    assert len(json.loads((file.parent / "report" / "report.json").read_text())["tasks"]) == COUNT

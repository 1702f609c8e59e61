"""`openforge tasks check` with real processes: null and oracle in real sandboxes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.unit.dev import sets
from tests.unit.orchestrator.runners import isolation_of, processes_with

pytestmark = [pytest.mark.slow, pytest.mark.real]
FOREIGN = "OPENFORGE_TEST_SET"
"""Names a folder with a set that others wrote, as imported: `git clone https://github.com/sequrity-ai/openclawbench`, then
`openforge tasks import openclawbench/tasks --to FOLDER`."""

TEST = '#!/bin/sh\ngrep -qx 42 out.txt && r=1 || r=0\necho $r > "$LOGS_DIR/verifier/reward.txt"\n'
SOLVE = "#!/bin/sh\nset -e\ncmp /solution/answer.bin solution.bin || cp /solution/answer.bin out.txt\necho $MODE > mode.txt\n"


@pytest.fixture(autouse=True)
def bubblewrap() -> None:
    isolation_of("bubblewrap")


def task(folder: Path, name: str, **files: str) -> None:
    parts = {
        "task.toml": '[solution]\nenv = { MODE = "fast" }\n', "instruction.md": "Write 42 to out.txt.\n", "tests/test.sh": TEST,
        "solution/solve.sh": SOLVE, "solution/answer.bin": "42\n",
    }  # fmt: skip
    sets.put(folder / name, parts | files)


def openforge(*argv: str, timeout: float = 100) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, "-m", "services.cli", "tasks", *argv], capture_output=True, text=True, timeout=timeout, check=False
    )
    return done.returncode, done.stdout + done.stderr


def check(folder: Path, *argv: str, timeout: float = 100) -> tuple[int, dict[str, Any]]:
    code, text = openforge("check", str(folder), "--json", *argv, timeout=timeout)
    return code, {entry["task"]: entry for entry in json.loads(text)["tasks"]}


def test_a_good_set_is_good(tmp_path: Path) -> None:
    task(tmp_path, "one")
    task(tmp_path, "two")
    code, found = check(tmp_path, "--runs", "2")
    assert code == 0
    for name in ("one", "two"):
        assert found[name]["problems"] == found[name]["warnings"] == []
        assert [run["reward"] for run in found[name]["runs"]["null"]] == [0, 0]
        assert [run["reward"] for run in found[name]["runs"]["oracle"]] == [1, 1]
    code, text = openforge("check", str(tmp_path / "one"))
    assert (code, "1 good; null 0: 1 of 1; oracle 1: 1 of 1" in text) == (0, True)


def test_what_is_wrong_is_found_and_the_rest_is_checked(tmp_path: Path) -> None:
    task(tmp_path, "good")
    task(tmp_path, "gift", **{"tests/test.sh": '#!/bin/sh\necho 1 > "$LOGS_DIR/verifier/reward.txt"\n'})
    task(tmp_path, "unsolved", **{"solution/solve.sh": "#!/bin/sh\necho no idea\nexit 3\n"})
    task(tmp_path, "silent", **{"tests/test.sh": "#!/bin/sh\necho I have no reward\n"})
    task(tmp_path, "unjudged", **{"task.toml": '[metadata]\nneeds = ["a judge"]\n'})
    task(tmp_path, "broken", **{"task.toml": "[agent"})
    code, found = check(tmp_path)
    assert code == 1
    assert {name: entry["state"] for name, entry in found.items()} == {
        "broken": "wrong", "gift": "wrong", "good": "good", "silent": "wrong", "unjudged": "not run", "unsolved": "wrong",
    }  # fmt: skip
    assert found["gift"]["problems"] == ["null: reward 1, expected 0"]
    assert found["unsolved"]["problems"] == ["oracle: reward 0, expected 1 (the agent's exit code was 3)"]
    assert "no idea" in found["unsolved"]["runs"]["oracle"][0]["said"]
    assert "left neither reward.json nor reward.txt" in found["silent"]["problems"][0]
    assert "I have no reward" in found["silent"]["runs"]["null"][0]["said"]
    assert found["unjudged"]["skipped"] == "it needs a judge"


def test_the_solution_is_there_for_the_oracle_alone(tmp_path: Path) -> None:
    spy = '#!/bin/sh\n[ -e /solution ] || [ -e "$HOME/solution" ] && echo seen\nr=0\ngrep -qx 42 out.txt && r=1\n'
    task(tmp_path, "one", **{"tests/test.sh": spy + 'echo $r > "$LOGS_DIR/verifier/reward.txt"\n'})
    code, found = check(tmp_path)
    assert code == 0
    assert all("seen" not in run["said"] for runs in found["one"]["runs"].values() for run in runs)


STEPS = """
{strategy}
[[steps]]
name = "first"
min_reward = 1.0
[[steps]]
name = "second"
[steps.verifier.env]
WANTED = "two"
"""
GRADE = '#!/bin/sh\n[ -e "$APP_DIR/gone" ] && exit 1\ngrep -qx "${{WANTED:-one}}" out.txt && r=1 || r={least}\n'
GRADE += 'echo $r > "$LOGS_DIR/verifier/reward.txt"\n'


def steps(folder: Path, name: str, second: str, strategy: str = "") -> None:
    """A task whose second step goes on with what the first one wrote."""
    parts = {
        "task.toml": STEPS.format(strategy=strategy), "tests/test.sh": GRADE.format(least=0),
        "steps/first/instruction.md": "Write one.\n", "steps/second/instruction.md": "Write two.\n",
        "steps/first/solution/solve.sh": '#!/bin/sh\necho one > out.txt; touch "$HOME/mine"\n',
        "steps/second/solution/solve.sh": f"#!/bin/sh\n{second}\n",
    }  # fmt: skip
    sets.put(folder / name, parts)


def test_the_steps_of_a_task_are_verified_one_after_the_other(tmp_path: Path) -> None:
    steps(tmp_path, "good", 'grep -qx one out.txt && [ ! -e "$HOME/mine" ] && [ ! -e /tests ] && echo two > out.txt')
    steps(tmp_path, "half", "exit 0")
    steps(tmp_path, "last", "exit 0", 'multi_step_reward_strategy = "final"')
    steps(tmp_path, "silent", "touch gone")
    code, found = check(tmp_path)
    oracle = {name: entry["runs"]["oracle"][0]["reward"] for name, entry in found.items()}
    assert (code, oracle) == (1, {"good": 1, "half": 0.5, "last": 0, "silent": None})
    assert {entry["runs"]["null"][0]["reward"] for entry in found.values()} == {0}
    assert found["good"]["state"] == "good"
    assert "left neither" in found["silent"]["runs"]["oracle"][0]["error"]


def test_an_imported_set_is_checked(tmp_path: Path) -> None:
    source = sets.openclaw(tmp_path / "set")
    code, text = openforge("import", str(source), "--to", str(tmp_path / "out"))
    assert (code, "1 tasks imported from harbor" in text) == (0, True)
    code, found = check(tmp_path / "out")
    assert (code, found["tasks-sum"]["state"]) == (0, "good")


def test_lint_alone_runs_nothing(tmp_path: Path) -> None:
    task(tmp_path, "gift", **{"tests/test.sh": '#!/bin/sh\necho 1 > "$LOGS_DIR/verifier/reward.txt"\n'})
    code, found = check(tmp_path, "--lint")
    assert (code, found["gift"]["runs"], found["gift"]["problems"]) == (0, {}, [])


@pytest.mark.usefixtures("nothing_left")
def test_an_interrupted_check_leaves_nothing_behind(tmp_path: Path) -> None:
    mark = f"sleep 71{os.getpid()}"
    task(tmp_path, "slow", **{"solution/solve.sh": f"#!/bin/sh\n{mark}\n"})
    running = subprocess.Popen(
        [sys.executable, "-m", "services.cli", "tasks", "check", str(tmp_path)],
        stderr=subprocess.PIPE,
        text=True,
    )
    until = time.monotonic() + 60
    while not processes_with(f"71{os.getpid()}"):
        assert time.monotonic() < until
        time.sleep(0.1)
    running.send_signal(signal.SIGINT)
    assert "nothing stays behind" in running.communicate(timeout=60)[1]
    assert running.returncode == 130
    assert processes_with(f"71{os.getpid()}") == []


def test_a_set_that_others_wrote_gives_null_0_and_oracle_1() -> None:
    folder = os.environ.get(FOREIGN)
    if not folder:
        pytest.skip(f"{FOREIGN} names no imported set")
    _, found = check(Path(folder))
    ran = [entry["runs"] for entry in found.values() if entry["runs"]]
    assert ran
    assert {run["reward"] for runs in ran for run in runs["null"]} == {0}
    assert {run["reward"] for runs in ran for run in runs["oracle"]} == {1}

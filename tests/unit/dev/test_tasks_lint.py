"""What is said against a task without running it, and how results are shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from services.dev.tasks.report import Checked, notes, summary
from services.synth.model import Ended, Trial
from shared.task.lint import Finding, lint, unknown_keys
from shared.task.sections import TaskFile
from tests.unit.dev.sets import put

GOOD = {
    "task.toml": '[task]\nname = "demo/good"\n[metadata]\nanything = { goes = 1 }\n', "instruction.md": "Write 1.\n",
    "tests/test.sh": "#!/bin/sh\n# pip install would be wrong\necho 1 > $LOGS_DIR/verifier/reward.txt\n",
    "solution/solve.sh": "#!/bin/sh\necho 1 > out\n", "environment/in.txt": "a text of more than sixteen bytes\n",
}  # fmt: skip


def test_nothing_is_said_against_a_good_task(tmp_path: Path) -> None:
    assert lint(put(tmp_path, GOOD), "local", "none")[1] == []


@pytest.mark.parametrize(
    ("path", "text", "level", "words"),
    [
        ("task.toml", "[agent", "error", "not valid TOML"),
        ("task.toml", "[agent]\ntimeout = 3", "warning", "nothing reads agent.timeout"),
        ("task.toml", "[environment]\nallow_internet = true", "warning", "allow_internet opens nothing here"),
        ("task.toml", "[environment]\ngpus = 1", "warning", "cannot run here: environment.gpus"),
        ("instruction.md", " \n", "error", "instruction.md is empty"),
        ("tests/test.sh", "#!/bin/sh\nexit 0\n", "warning", "nothing in tests/ writes a reward"),
        ("tests/test.sh", "#!/bin/sh\npip install x && echo 1 > reward.txt\n", "warning", "fetches something (pip install)"),
        ("environment/copy.sh", GOOD["tests/test.sh"], "error", "environment/copy.sh is tests/test.sh: the agent can read it"),
        ("environment/.hidden", GOOD["solution/solve.sh"], "error", ".hidden is solution/solve.sh"),
        ("environment/Dockerfile", "FROM python\n", "warning", "FROM python names no version"),
        ("environment/Dockerfile", "FROM reg:5000/python:latest\n", "warning", "names no version"),
        ("environment/Dockerfile", "FROM a:1\nCOPY tests/ /tests/\n", "error", "tests or solution in the image"),
        ("environment/Dockerfile", "FROM a:1\nRUN x\n", "warning", "do not carry its RUN lines out"),
        ("environment/Dockerfile", "FROM a:1\nRUN pip install -q x==1 y\n", "warning", "pip install of y without a version"),
        ("environment/Dockerfile", "FROM a:1\nRUN npm i -g @a/b@1 c\n", "warning", "npm install of c without a version"),
        ("environment/Dockerfile", "FROM a:1\nRUN apt-get install -y b=1 c\n", "warning", "apt-get install of c without"),
        ("task.toml", '[environment]\ndocker_image = "python"', "warning", "docker_image python names no version"),
        ("tests/test.sh", '#!/bin/sh\n[ "$(cat out.txt)" = 4 ] && echo 1 > $L/reward.txt\n', "warning", "looks at out.txt"),
        ("environment/key.txt", f"AKIA{'ABCDEFGHJKLMNPQR'}\n", "error", "looks like a key"),
    ],
)
def test_what_is_wrong_with_a_task_is_named(tmp_path: Path, path: str, text: str, level: str, words: str) -> None:
    put(tmp_path, GOOD | {path: text})
    found = lint(tmp_path, "local", "none")[1]
    assert any(finding.level == level and words in finding.text for finding in found), found


@pytest.mark.parametrize(
    "text",
    [
        "FROM a:1 AS one\nFROM one\n", "FROM scratch\n", "FROM a@sha256:00\n", "FROM --platform=linux/amd64 a:1\n",
        "FROM a:1\nCOPY contests/ /x/\n",
    ],
)  # fmt: skip
def test_a_dockerfile_that_is_well_is_left_alone(tmp_path: Path, text: str) -> None:
    put(tmp_path, GOOD | {"environment/Dockerfile": text})
    assert lint(tmp_path, "local", "none")[1] == []


def test_a_task_without_a_solution_is_a_warning(tmp_path: Path) -> None:
    put(tmp_path, {path: text for path, text in GOOD.items() if not path.startswith("solution")})
    assert [f.level for f in lint(tmp_path, "local", "none")[1]] == ["warning"]


def test_keys_are_looked_for_in_inner_tables_and_lists_too() -> None:
    raw = {
        "new": 1, "version": "1", "steps": [{"name": "a", "agent": {"odd": 1}}],
        "environment": {"memory": "1G", "healthcheck": {"command": "x", "every": 1}},
    }  # fmt: skip
    assert list(unknown_keys(raw, TaskFile)) == ["new", "steps.agent.odd", "environment.healthcheck.every"]


def checked(name: str, null: list[float | None], oracle: list[float | None], *findings: Finding) -> Checked:
    task = Checked(Path(name), name, list(findings))
    task.runs = {
        "null": [Ended(trial=Trial(agent="null", run=n), reward=reward) for n, reward in enumerate(null)],
        "oracle": [Ended(trial=Trial(agent="oracle", run=n), reward=reward) for n, reward in enumerate(oracle)],
    }
    return task


@pytest.mark.parametrize(
    ("null", "oracle", "problem"),
    [
        ([0.0], [1.0], None),
        ([0.5], [1.0], "null: reward 0.5, expected 0"),
        ([0.0], [0.0], "oracle: reward 0, expected 1"),
        ([0.0], [None], "oracle: no reward"),
        ([0.0, 1.0], [1.0, 1.0], "null: rewards differ from run to run: 0.0, 1.0"),
    ],
)
def test_a_task_is_good_when_both_agents_get_what_they_must(
    null: list[float | None], oracle: list[float | None], problem: str | None
) -> None:
    task = checked("a", null, oracle)
    assert task.problems == ([problem] if problem else [])
    assert task.state == ("wrong" if problem else "good")


def test_what_is_true_of_many_tasks_is_said_once() -> None:
    warning = Finding("warning", "no picture", "no-solution")
    tasks = [checked(name, [0.0], [1.0], warning) for name in "abcde"] + [checked("f", [1.0], [1.0])]
    assert notes(tasks) == ["wrong: null: reward 1, expected 0: f", "warning: no picture: a, b, c and 2 more"]
    assert summary(tasks, 2.0) == "6 tasks in 2.0 s: 5 good, 1 wrong; null 0: 5 of 6; oracle 1: 6 of 6"

"""`openforge tasks check` in containers of a real engine: what tasks say of their image, users and steps holds there too."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.contract.conftest import docker_engine
from tests.e2e.test_tasks_check import check, openforge, steps
from tests.unit.dev import sets

pytestmark = [pytest.mark.real, pytest.mark.slow, pytest.mark.timeout(600), pytest.mark.usefixtures("docker_engine")]

__all__ = ["docker_engine"]

DOCKERFILE = """FROM debian:bookworm-slim
RUN useradd --uid 1234 --create-home worker && mkdir /data && echo built >/data/built.txt
ENV FROM_IMAGE=yes PATH=/opt/own:$PATH
WORKDIR /work/deep
COPY seed.txt .
"""
WHOLE = """
[agent]
user = "{agent}"
[verifier]
user = "{verifier}"
[environment]
docker_image = "{image}"
env = {{ FROM_TASK = "yes" }}
[environment.healthcheck]
command = "echo $((1 + $(cat n 2>/dev/null || echo 0))) > n; [ $(cat n) -ge 2 ]"
interval_sec = 0.1
[solution]
env = {{ MODE = "fast" }}
"""
SOLVE = """#!/bin/sh
{
  id -un; pwd; cat seed.txt /data/built.txt /solution/answer
  echo $FROM_IMAGE $FROM_TASK $MODE $(cat n) $(hostname) $TZ
  echo "${PATH%%:*}"
} > out.txt
"""
TEST = """#!/bin/sh
[ -e "$HOME/solution" ] && echo the solution is seen
id -un
cat out.txt
cmp out.txt /tests/wanted && r=1 || r=0
echo $r > /logs/verifier/reward.txt
"""


def whole(folder: Path, name: str, agent: str, verifier: str, workdir: str = "/work/deep") -> None:
    """A task that says much, and whose verifier wants all of it to have been so."""
    task = WHOLE.format(agent=agent, verifier=verifier, image="").replace('docker_image = ""\n', "")
    parts = {
        "task.toml": task, "instruction.md": "Say who you are.\n", "environment/Dockerfile": DOCKERFILE,
        "environment/seed.txt": "seed\n", "solution/solve.sh": SOLVE, "solution/answer": "42\n", "tests/test.sh": TEST,
        "tests/wanted": f"{agent}\n{workdir}\nseed\nbuilt\n42\nyes yes fast 2 sandbox UTC\n/opt/own\n",
    }  # fmt: skip
    sets.put(folder / name, parts)


def test_users_image_environment_working_folder_and_health_check_hold_in_containers(tmp_path: Path) -> None:
    whole(tmp_path, "named", agent="worker", verifier="root")
    whole(tmp_path, "root", agent="root", verifier="worker")
    code, found = check(tmp_path, "--backend", "docker", timeout=500)
    for name, verifier in (("named", "root"), ("root", "worker")):
        oracle = found[name]["runs"]["oracle"][0]
        assert (oracle["reward"], oracle["error"]) == (1, ""), oracle
        assert f"--- verify ---\n{verifier}\n" in oracle["said"]
        assert "is seen" not in oracle["said"]
        assert found[name]["runs"]["null"][0]["reward"] == 0
    assert code == 0, found
    assert left_over() == ""


def test_steps_are_verified_one_after_the_other_in_containers(tmp_path: Path) -> None:
    unseen = '[ ! -e "$HOME/mine" ] && [ ! -e /tmp/trap ] && [ -z "$(ls /tests)" ]'
    steps(tmp_path, "good", f"grep -qx one out.txt && {unseen} && echo two > out.txt")
    first = tmp_path / "good" / "steps" / "first" / "solution" / "solve.sh"
    first.write_text(first.read_text() + "touch /tmp/trap\n")
    steps(tmp_path, "half", "exit 0")
    steps(tmp_path, "silent", "touch gone")
    code, found = check(tmp_path, "--backend", "docker", timeout=500)
    oracle = {name: entry["runs"]["oracle"][0] for name, entry in found.items()}
    assert {name: run["reward"] for name, run in oracle.items()} == {"good": 1, "half": 0.5, "silent": None}, oracle
    assert {entry["runs"]["null"][0]["reward"] for entry in found.values()} == {0}
    assert code == 1
    assert left_over() == ""


def test_what_cannot_be_built_is_said(tmp_path: Path) -> None:
    whole(tmp_path, "broken", agent="root", verifier="root")
    (tmp_path / "broken" / "environment" / "Dockerfile").write_text("FROM debian:bookworm-slim\nRUN echo no luck; exit 3\n")
    code, text = openforge("check", str(tmp_path), "--backend", "docker", timeout=300)
    assert code == 1
    assert "ImageError" in text
    assert "no luck" in text


def left_over() -> str:
    """Containers of checks that are still there."""
    listed = ["docker", "ps", "-aq", "--filter", "name=openforge-check-"]
    return subprocess.run(listed, capture_output=True, text=True, check=True).stdout

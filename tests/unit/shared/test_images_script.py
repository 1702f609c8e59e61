"""scripts/images.sh says what it lacks before it does anything."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from tests.waiting import until

REPO = Path(__file__).parents[3]
SCRIPT = REPO / "scripts" / "images.sh"
NEEDED = (
    "scripts/images.sh",
    "scripts/pins.py",
    "pyproject.toml",
    "requirements/cpu.lock",
    "requirements/vllm-alias/pyproject.toml",
)


def refused(*images: str, **environment: str) -> str:
    said = os.environ | {"OPENFORGE_PYTHON": sys.executable, "DOCKER_HOST": "unix:///nowhere.sock"} | environment
    done = subprocess.run([SCRIPT, *images], env=said, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    return done.stderr


def test_an_image_that_there_is_not_is_refused_with_those_that_there_are() -> None:
    assert "there is no image proxy; there are: services, learner" in refused("services", "proxy")


@pytest.mark.parametrize(
    ("environment", "says"),
    [
        ({}, "no docker engine answers: scripts/docker-engine.sh DIR"),
        ({"OPENFORGE_PYTHON": "/nowhere/python3.11"}, "OPENFORGE_PYTHON=/path/to/python3.11"),
    ],
    ids=["engine", "python"],
)
def test_what_is_missing_is_said_with_what_to_do(environment: dict[str, str], says: str) -> None:
    assert says in refused(**environment)


def program(file: Path, script: str) -> Path:
    file.parent.mkdir(exist_ok=True)
    file.write_text(f"#!/bin/sh\n{script}\n")
    file.chmod(0o755)
    return file


def checkout(folder: Path, pip: str, docker: str) -> tuple[Path, dict[str, str]]:
    """A copy of the script with what it needs, and an environment in which pip and docker are these shell scripts."""
    for name in NEEDED:
        (folder / "repo" / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(REPO / name, folder / "repo" / name)
    program(folder / "bin" / "docker", docker)
    program(folder / "bin" / "df", "echo; echo of 99999999 0 99999999")
    python = program(folder / "bin" / "python", f'if [ "$1" = -m ]; then {pip}; fi; exec {sys.executable} "$@"')
    said = {"PATH": f"{folder / 'bin'}:{os.environ['PATH']}", "OPENFORGE_PYTHON": str(python), "OPENFORGE_TRY_AGAIN_S": "0"}
    return folder / "repo" / "scripts" / "images.sh", os.environ | said


def test_a_fetch_that_fails_is_tried_three_times_and_then_told_with_what_pip_said(tmp_path: Path) -> None:
    script, env = checkout(tmp_path, 'echo "the connection broke"; exit 1', "exit 0")
    done = subprocess.run([script], env=env, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert done.stderr.count("that failed; once more") == 2
    assert "the connection broke" in done.stderr
    assert "PIP_INDEX_URL" in done.stderr
    assert (tmp_path / "repo" / "build" / "wheels.log").read_text().count("the connection broke") == 3


def test_a_second_one_in_the_folder_waits_for_the_first_but_not_for_what_that_leaves_running(tmp_path: Path) -> None:
    log, go, left = tmp_path / "log", tmp_path / "go", tmp_path / "left"
    wait = f"while [ ! -e {go} ]; do sleep 0.02; done"
    docker = f'[ "$1" = build ] || exit 0; echo begins >>{log}; {wait}; echo ends >>{log}'
    pip = f"(sleep 90 >/dev/null 2>&1 & echo $! >>{left}); exit 0"
    script, env = checkout(tmp_path, pip, docker)
    begin = partial(subprocess.Popen, [script, "services"], env=env, stderr=subprocess.PIPE, text=True)
    with begin() as first:
        try:
            asyncio.run(until(lambda: log.exists() and log.read_text() == "begins\n"))
            with begin() as second:
                assert second.stderr is not None
                assert "at work in" in second.stderr.readline()
                assert log.read_text() == "begins\n"
                go.touch()
                assert (first.wait(60), second.wait(60)) == (0, 0)
        finally:
            go.touch()
            for pid in left.read_text().split():
                os.kill(int(pid), signal.SIGKILL)
    assert log.read_text().split() == ["begins", "ends"] * 2

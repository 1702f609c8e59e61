"""scripts/images.sh says what it lacks before it does anything."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

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


def test_a_fetch_that_fails_is_tried_three_times_and_then_told_with_what_pip_said(tmp_path: Path) -> None:
    for name in NEEDED:
        (tmp_path / "repo" / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(REPO / name, tmp_path / "repo" / name)
    program(tmp_path / "bin" / "docker", "exit 0")
    program(tmp_path / "bin" / "df", "echo; echo of 99999999 0 99999999")
    pip = f'if [ "$1" = -m ]; then echo "the connection broke"; exit 1; fi; exec {sys.executable} "$@"'
    python = program(tmp_path / "bin" / "python", pip)
    said = {"PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}", "OPENFORGE_PYTHON": str(python), "OPENFORGE_TRY_AGAIN_S": "0"}
    script = tmp_path / "repo" / "scripts" / "images.sh"
    done = subprocess.run([script], env=os.environ | said, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert done.stderr.count("that failed; once more") == 2
    assert "the connection broke" in done.stderr
    assert "PIP_INDEX_URL" in done.stderr
    assert (tmp_path / "repo" / "build" / "wheels.log").read_text().count("the connection broke") == 3

"""scripts/images.sh says what it lacks before it does anything."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[3] / "scripts" / "images.sh"


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

"""`scripts/task-images.sh`, with a docker that only notes what it was asked for."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from shared.task import load_task

SCRIPT = Path(__file__).parents[3] / "scripts/task-images.sh"
DOCKER = '#!/bin/sh\n[ "$1" != image ] || exit 1\n[ "$1" != "$FAIL" ] || exit 1\necho "$@" >>"$NOTES"\n'


def task(folder: Path, more: str = "", dockerfile: bool = True) -> None:
    for sub in ("environment", "tests"):
        (folder / sub).mkdir(parents=True)
    (folder / "task.toml").write_text(f'schema_version = "1.4"\n[task]\nname = "x/{folder.name}"\n{more}')
    (folder / "instruction.md").write_text("Do it.\n")
    (folder / "tests/test.sh").write_text("true\n")
    if dockerfile:
        (folder / "environment/Dockerfile").write_text("FROM debian:bookworm-slim\n")


@pytest.fixture
def tasks(tmp_path: Path) -> Path:
    folder = tmp_path / "tasks"
    task(folder / "Plain")
    task(folder / "sized", "[environment]  # small\ncpus = 2\n")
    task(folder / "named", '[environment]\ndocker_image = "mine:1"\n')
    task(folder / "bare", dockerfile=False)
    return folder


def run(tmp_path: Path, *args: str, fail: str = "") -> subprocess.CompletedProcess[str]:
    docker = tmp_path / "bin/docker"
    docker.parent.mkdir(exist_ok=True)
    docker.write_text(DOCKER)
    docker.chmod(0o755)
    env = os.environ | {"PATH": f"{docker.parent}:{os.environ['PATH']}", "NOTES": str(tmp_path / "notes"), "FAIL": fail}
    return subprocess.run([SCRIPT, *args], env=env, capture_output=True, text=True, check=False)


def test_a_task_with_a_dockerfile_names_its_image_in_the_copy(tasks: Path, tmp_path: Path) -> None:
    done = run(tmp_path, str(tasks), str(tmp_path / "out"), "registry/")
    assert done.returncode == 0, done.stderr
    images = (tmp_path / "out/images.txt").read_text().split()
    assert [name.rpartition(":")[0] for name in images] == ["registry/openforge-task-plain", "registry/openforge-task-sized"]
    found = {name: load_task(tmp_path / "out" / name).environment for name in ("Plain", "sized", "named", "bare")}
    assert [found["Plain"].docker_image, found["sized"].docker_image] == images
    assert (found["sized"].cpus, found["named"].docker_image, found["bare"].docker_image) == (2, "mine:1", None)
    notes = (tmp_path / "notes").read_text().splitlines()
    assert [note.split()[0] for note in notes] == ["build", "push", "build", "push"]
    assert load_task(tasks / "Plain").environment.docker_image is None


def test_what_broke_off_leaves_nothing_that_looks_whole(tasks: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert run(tmp_path, str(tasks), str(out), fail="build").returncode != 0
    assert not out.exists()
    assert run(tmp_path, str(tasks), str(out)).returncode == 0
    again = run(tmp_path, str(tasks), str(out))
    assert again.returncode == 1
    assert "is there already" in again.stderr

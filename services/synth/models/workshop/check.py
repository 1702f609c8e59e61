#!/usr/bin/env python3
"""Says what is wrong with the task in a folder: `python3 check.py FOLDER`. Exit status 1 if anything is.

It looks at the files, then runs the task's own check twice in copies of it all: after nothing was done, which must give 0, and
after solution/solve.sh, which must give 1. Standard library only: it runs wherever the task is built.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

_SECONDS = 60
_SAID = 1500


def looks(task: Path, order: dict[str, Any]) -> Iterator[str]:
    """What is wrong with its files."""
    for path in ("instruction.md", *order["needed"]):
        file = task / path
        if not file.is_file() or not file.read_text(encoding="utf-8", errors="replace").strip():
            yield f"{path} is missing or empty"
    for path, digest in order["base"].items():
        file = task / path
        if not file.is_file() or hashlib.sha256(file.read_bytes()).hexdigest() != digest:
            yield f"{path} belongs to the environment base: put it back as it was"
    for file in sorted(task.rglob("*")):
        if file.is_symlink():
            yield f"{file.relative_to(task)} is a link; a task has none"
        elif file.suffix == ".json" and file.is_file():
            try:
                json.loads(file.read_text(encoding="utf-8"))
            except ValueError as e:
                yield f"{file.relative_to(task)} is no JSON: {e}"


def runs(task: Path, order: dict[str, Any]) -> Iterator[str]:
    """What is wrong with what it does."""
    for fill in order["fills"]:
        fill_in(task, **fill)
    for solved, wanted in ((False, 0.0), (True, 1.0)):
        with tempfile.TemporaryDirectory() as folder:
            reward, said = _reward(task, Path(folder), order["serve"], solved=solved)
        what = "after solution/solve.sh" if solved else "after nothing was done"
        if reward != wanted:
            yield f"{what} the check gives {reward}, and {wanted:g} is right. It said:\n{said[-_SAID:]}"


def fill_in(task: Path, target: str, source: str, part: str, into: str) -> None:
    """Takes data over from one file into another, or makes another of it."""
    data = json.loads((task / source).read_text(encoding="utf-8"))
    data = data[part] if part else data
    whole = json.loads((task / target).read_text(encoding="utf-8")) | {into: data} if into else data
    (task / target).write_text(json.dumps(whole), encoding="utf-8")


def _reward(task: Path, folder: Path, serve: str, *, solved: bool) -> tuple[float | None, str]:
    app, logs = folder / "app", folder / "logs"
    shutil.copytree(task / "environment", app)
    for part in ("tests", "solution"):
        shutil.copytree(task / part, folder / part)
    (logs / "verifier").mkdir(parents=True)
    (logs / "artifacts").mkdir()
    env = os.environ | {"APP_DIR": str(app), "LOGS_DIR": str(logs), "TESTS_DIR": str(folder / "tests")}
    said = ""
    with _served(serve, app, env) as served:
        if solved:
            said += _run(["sh", str(folder / "solution" / "solve.sh")], app, served)
    said += _run(["sh", str(folder / "tests" / "test.sh")], app, env)
    try:
        return float((logs / "verifier" / "reward.txt").read_text()), said
    except (OSError, ValueError):
        return None, said + "\nit left no number in $LOGS_DIR/verifier/reward.txt"


def _run(command: list[str], cwd: Path, env: dict[str, str]) -> str:
    try:
        ran = subprocess.run(
            command, cwd=cwd, env=env, text=True, errors="replace", stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            timeout=_SECONDS, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return f"{command[-1]} was ended after {_SECONDS} s\n"
    return f"{ran.stdout}\n(exit status {ran.returncode})\n"


@contextmanager
def _served(serve: str, app: Path, env: dict[str, str]) -> Iterator[dict[str, str]]:
    """The task's service runs meanwhile, if it has one."""
    if not serve:
        yield env
        return
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    env = env | {"PORT": str(port), "SERVICE_URL": f"http://127.0.0.1:{port}"}
    service = subprocess.Popen(["sh", "-c", serve], cwd=app, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        _answers(port, service)
        yield env
    finally:
        service.kill()
        service.wait()


def _answers(port: int, service: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + _SECONDS
    while time.monotonic() < until and service.poll() is None:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)


def main() -> int:
    """Prints what is wrong; returns the exit status."""
    task, order = Path(sys.argv[1]).resolve(), json.loads(Path(__file__).with_name("order.json").read_text(encoding="utf-8"))
    wrong = list(looks(task, order)) or list(runs(task, order))
    sys.stdout.write("\n\n".join(wrong) + "\n" if wrong else "The task is as it has to be.\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

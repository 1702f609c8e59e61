"""The task that asks a harness to build a task, and what comes back of it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

import tomli_w

from services.synth.models import folder as folders
from services.synth.models.bases import Base
from services.synth.models.kinds import Built, File
from shared.errors import MakerError
from shared.task.folder import WORKDIR

TASK = "task"
"""Folder, in the working folder of the builder, of what is built."""
_MINUTES = 30
_TEST = f"""\
#!/bin/sh
# What was built was handed over; the same check that the builder had says whether it is a task.
python3 -B "${{TESTS_DIR:-/tests}}/check.py" "${{APP_DIR:-/app}}/{TASK}" && reward=1 || reward=0
echo $reward > "${{LOGS_DIR:-/logs}}/verifier/reward.txt"
"""
_DOCKERFILE = f"""\
FROM python:3.11-slim
WORKDIR {WORKDIR}
COPY . ./
"""


def write_order(folder: Path, name: str, instruction: str, base: Base, files: Mapping[str, str]) -> None:
    """Writes the builder's task.

    Args:
        folder: a new one.
        name: of the task.
        instruction: for the builder.
        base: that is built on.
        files: what was built before, by path; of a task that is to be mended.
    """
    check = Path(__file__).with_name("check.py").read_text(encoding="utf-8")
    order = json.dumps(_order(base), indent=1, sort_keys=True)
    texts = {
        folders.INSTRUCTION: instruction, "tests/test.sh": _TEST, "environment/Dockerfile": _DOCKERFILE,
        "environment/check.py": check, "environment/order.json": order, "tests/check.py": check, "tests/order.json": order,
    }  # fmt: skip
    texts |= {f"environment/{TASK}/{path}": text for path, text in (dict(base.files) | dict(files)).items()}
    folders.write(folder, [File(path, text) for path, text in texts.items()])
    for path in base.scripts:
        (folder / "environment" / TASK / path).chmod(0o755)
    (folder / folders.TOML).write_text(_toml(name), encoding="utf-8")


def _order(base: Base) -> dict[str, object]:
    digests = {path: hashlib.sha256(folders.ended(text).encode()).hexdigest() for path, text in base.files.items()}
    fills = [asdict(fill) for fill in base.fills]
    serve = base.toml.get("metadata", {}).get("serve", "")
    return {"needed": list(base.needed), "base": digests, "fills": fills, "serve": serve}


def _toml(name: str) -> str:
    return tomli_w.dumps({
        "schema_version": "1.4",
        "artifacts": [f"{WORKDIR}/{TASK}"],
        "task": {"name": f"build/{name}"},
        "metadata": {"family": "build", "keep_artifacts": True},
        "agent": {"timeout_sec": 60.0 * _MINUTES},
        "verifier": {"timeout_sec": 600.0, "environment_mode": "separate"},
    })  # fmt: skip


def read_built(folder: Path, base: Base, minutes: int) -> Built:
    """What a builder left in the folder that was handed over.

    Args:
        folder: the task as it built it.
        base: that it built on.
        minutes: that the agent of the task may take.

    Raises:
        MakerError: it is no task.
    """
    files, instruction = [], ""
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.is_dir() or name in base.taken or name == folders.TOML or "__pycache__" in path.parts:
            continue
        if path.is_symlink() or not path.is_file():
            raise MakerError(f"the builder left {name}, which is no file")
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as e:
            raise MakerError(f"the builder left {name}, which is no text: {e}") from None
        if name == folders.INSTRUCTION:
            instruction = text
        else:
            files.append(File(name, text))
    if wrong := folders.problem(
        [*files, File(folders.INSTRUCTION, instruction)], base.taken, (folders.INSTRUCTION, *base.needed)
    ):
        raise MakerError(f"what the builder left is no task: {wrong}")
    return Built(instruction, minutes, files)

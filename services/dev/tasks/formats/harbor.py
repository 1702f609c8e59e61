"""Sets of Harbor task folders, and openclawbench, whose folders make their content by a script.

openclawbench's runner calls `environment/setup_workspace.py FOLDER`, looks for the reward in $REWARD_DIR, and puts the agent's
last words where the tests read them. The script is run once, at the import; the rest is said in task.toml and instruction.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from services.dev.tasks.draft import Draft, Item, folder_name
from services.dev.tasks.rows import read_text
from shared.errors import TaskError

ABOUT = "Harbor task folders (task.toml, instruction.md, tests/test.sh), openclawbench's with their setup scripts too"
SEED = "environment/setup_workspace.py"
WORKSPACE = "/workspace"
ANSWER = "/logs/agent/response.txt"
_OLD_ANSWER = f"{WORKSPACE}/.logs/agent"
_DOCKERFILE = f"FROM python:3.12-slim\nWORKDIR {WORKSPACE}\nCOPY . {WORKSPACE}/\n"


def fits(source: Path) -> bool:
    """See `Format.fits`."""
    return next(_folders(source), None) is not None


def items(source: Path) -> Iterator[Item]:
    """See `Format.items`. A folder's name is its path in the source, so that equal names of two parts stay apart."""
    for folder in _folders(source):
        path = folder.relative_to(source) if folder != source else Path(source.resolve().name)
        yield Item(str(path), partial(draft, folder, folder_name("-".join(path.parts))))


def draft(folder: Path, name: str) -> Draft:
    """One folder.

    Raises:
        TaskError: a file of it cannot be read.
    """
    if not (folder / SEED).is_file():
        return Draft(name=name, copies={"": folder})
    return Draft(name=name, copies={"": folder}, seed=folder / SEED, **_adapted(folder))


def _adapted(folder: Path) -> dict[str, Any]:
    """What an openclawbench folder says that its runner knows otherwise."""
    try:
        toml = tomllib.loads(read_text(folder / "task.toml"))
    except tomllib.TOMLDecodeError as e:
        raise TaskError(f"task.toml: {e}") from None
    environment = toml.setdefault("environment", {})
    environment.setdefault("workdir", WORKSPACE)
    environment.setdefault("network_mode", "public" if environment.pop("allow_internet", False) else "no-network")
    toml.setdefault("verifier", {})["env"] = {"WORKSPACE": WORKSPACE, "REWARD_DIR": "/logs/verifier"}
    texts = {"environment/Dockerfile": _DOCKERFILE}
    changes = [
        "the working folder is what environment/setup_workspace.py made at the import",
        "task.toml: workdir, verifier.env",
    ]
    solution, tests = folder / "solution/solve.sh", read_text(folder / "tests/test.sh")
    if solution.is_file() and _OLD_ANSWER in (solved := read_text(solution)):
        texts["solution/solve.sh"] = solved.replace(_OLD_ANSWER, str(Path(ANSWER).parent))
        changes.append(f"solution/solve.sh writes the answer to {ANSWER}")
    if ANSWER in tests:
        texts["instruction.md"] = (
            f"{read_text(folder / 'instruction.md').rstrip()}\n\nWrite your answer to the file {ANSWER}.\n"
        )
        changes.append(f"instruction.md asks for the answer in {ANSWER}, where the tests read it")
    return {"toml": toml, "texts": texts, "changes": tuple(changes)}


def _folders(source: Path) -> Iterator[Path]:
    if source.is_file():
        return iter(())
    found = sorted(file.parent for file in source.rglob("task.toml") if (file.parent / "instruction.md").is_file())
    tops = [folder for folder in found if not any(parent in folder.parents for parent in found)]
    return iter(tops)

"""Harbor-format task folders, as far as a rollout needs them.

    task.toml  instruction.md  environment/  solution/solve.sh  tests/test.sh

`environment/` makes the working folder, `tests/` is copied in only after the agent ended, and `tests/test.sh` leaves the
reward in `/logs/verifier/reward.json` or `reward.txt`. Sections and keys of task.toml that are not listed here are ignored.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from shared.errors import TaskError

Seconds = Annotated[float, Meta(gt=0)]

_VARIABLE = re.compile(r"\$\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<default>[^}]*))?\}")
_PRIVATE = "OPENFORGE"


class AgentSection(msgspec.Struct, frozen=True, kw_only=True):
    """[agent]: wall-clock limit of the agent in seconds; None leaves it to the configuration."""

    timeout_sec: Seconds | None = None


class VerifierSection(msgspec.Struct, frozen=True, kw_only=True):
    """[verifier]: wall-clock limit in seconds (None leaves it to the configuration) and environment of tests/test.sh."""

    timeout_sec: Seconds | None = None
    env: dict[str, str] = {}


class EnvironmentSection(msgspec.Struct, frozen=True, kw_only=True):
    """[environment]: environment of agent and verifier, and the working folder as the agent sees it (absolute)."""

    env: dict[str, str] = {}
    workdir: str = "/app"


class _File(msgspec.Struct, frozen=True, kw_only=True):
    task: dict[str, Any] = {}
    metadata: dict[str, Any] = {}
    agent: AgentSection = AgentSection()
    verifier: VerifierSection = VerifierSection()
    environment: EnvironmentSection = EnvironmentSection()


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """A task that was found complete.

    Attributes:
        folder: absolute path of the task folder.
        name: `task.name`, or the folder's name.
        instruction: what the agent is asked to do.
        metadata: free table.
    """

    folder: Path
    name: str
    instruction: str
    agent: AgentSection
    verifier: VerifierSection
    environment: EnvironmentSection
    metadata: dict[str, Any]

    @property
    def environment_dir(self) -> Path:
        """Content of the working folder; need not exist."""
        return self.folder / "environment"

    @property
    def tests_dir(self) -> Path:
        """The verifier."""
        return self.folder / "tests"


def load_task(folder: Path) -> Task:
    """Reads and checks a task folder.

    Raises:
        TaskError: the folder, task.toml, instruction.md or tests/test.sh is missing or unreadable, or a value is unusable.
    """
    if not folder.is_dir():
        raise TaskError(f"{folder}: no such task folder")
    folder = folder.resolve()
    file = _parse(folder / "task.toml")
    name = file.task.get("name", folder.name)
    if not isinstance(name, str) or not name:
        raise TaskError(f"{folder}/task.toml: task.name: expected a text")
    if not (folder / "tests" / "test.sh").is_file():
        raise TaskError(f"{folder}: no tests/test.sh: a task without a verifier cannot be rewarded")
    if not PurePosixPath(file.environment.workdir).is_absolute():
        raise TaskError(f"{folder}/task.toml: environment.workdir {file.environment.workdir!r} must be an absolute path")
    return Task(
        folder=folder, name=name, instruction=_read(folder / "instruction.md"), agent=file.agent,
        verifier=file.verifier, environment=file.environment, metadata=file.metadata,
    )  # fmt: skip


def list_tasks(folder: Path) -> list[Path]:
    """The task folders directly under `folder` (those with a task.toml), sorted by name.

    Raises:
        TaskError: there is no such folder, or no task in it.
    """
    if not folder.is_dir():
        raise TaskError(f"{folder}: no such folder of tasks")
    found = sorted(entry for entry in folder.iterdir() if (entry / "task.toml").is_file())
    if not found:
        raise TaskError(f"{folder}: no task in it; every task is a sub-folder with a task.toml")
    return found


def expand(env: Mapping[str, str], host: Mapping[str, str]) -> dict[str, str]:
    """Fills `${NAME}` and `${NAME:-default}` in the values of `env` from the host's environment.

    The project's own variables (`OPENFORGE...`, among them keys) count as not set.

    Raises:
        TaskError: a variable without default is not set.
    """

    def value(match: re.Match[str]) -> str:
        name, default = match["name"], match["default"]
        found = default if name.startswith(_PRIVATE) else host.get(name, default)
        if found is None:
            raise TaskError(f"the task needs the environment variable {name}; set it where the orchestrator is started")
        return found

    return {key: _VARIABLE.sub(value, text) for key, text in env.items()}


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise TaskError(f"{file.parent}: no {file.name}") from None
    except (OSError, UnicodeDecodeError) as e:
        raise TaskError(f"{file}: {e}") from None


def _parse(file: Path) -> _File:
    try:
        return msgspec.convert(tomllib.loads(_read(file)), _File)
    except tomllib.TOMLDecodeError as e:
        raise TaskError(f"{file}: not valid TOML: {e}") from None
    except msgspec.ValidationError as e:
        what, _, where = str(e).partition(" - at `$.")
        raise TaskError(f"{file}: {where.rstrip('`') or 'content'}: {what}") from None

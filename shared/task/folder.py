"""A task folder, read and checked."""

from __future__ import annotations

import tomllib
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import msgspec

from shared.errors import TaskError
from shared.task.dockerfile import workdir
from shared.task.legacy import renew
from shared.task.sections import Agent, Artifact, Environment, Healthcheck, Solution, TaskFile, Verifier

WORKDIR = "/app"
"""Working folder of tasks that name none."""
COMPOSE = ("docker-compose.yaml", "docker-compose.yml", "singularity-compose.yaml")


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a task with an agent and a verification of its own; most tasks have one.

    Attributes:
        name: of the step; empty in a task of one.
        instruction: what the agent is asked to do.
        tests: folders that make the verifier's /tests, the later ones over the earlier.
        solution: folder with solve.sh; need not exist.
        files: what is put into the working folder first; need not exist.
        min_reward: see `StepSection`.
    """

    name: str
    instruction: str
    agent: Agent
    verifier: Verifier
    tests: tuple[Path, ...]
    solution: Path
    files: Path
    healthcheck: Healthcheck | None = None
    min_reward: float | dict[str, float] | None = None


class Task(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """A task that was found complete.

    Attributes:
        folder: absolute path of the task folder.
        name: `task.name`, or the folder's name.
        instruction: what the agent is asked to do; of its first step if there are several.
        steps: one or more.
        strategy: how the rewards of several steps become one.
        metadata: free table.
        source: where it comes from, in its own words.
    """

    folder: Path
    name: str
    instruction: str
    agent: Agent
    verifier: Verifier
    environment: Environment
    solution: Solution
    metadata: dict[str, Any]
    steps: tuple[Step, ...]
    strategy: Literal["mean", "final"] = "mean"
    artifacts: tuple[Artifact, ...] = ()
    source: str = ""

    @property
    def environment_dir(self) -> Path:
        """Content of the working folder; need not exist."""
        return self.folder / "environment"

    @property
    def tests_dir(self) -> Path:
        """The verifier."""
        return self.folder / "tests"

    @property
    def dockerfile(self) -> Path | None:
        """The Dockerfile that its image is built from, if it has one and names no image."""
        file = self.environment_dir / "Dockerfile"
        return file if not self.environment.docker_image and file.is_file() else None

    @cached_property
    def workdir(self) -> str:
        """Working folder as the agent sees it: that of task.toml, else of the Dockerfile, else /app."""
        file = self.dockerfile
        return self.environment.workdir or (file and workdir(file.read_text(errors="replace"))) or WORKDIR

    @property
    def user(self) -> str:
        """Who the agent wants to run as; empty leaves it to the sandbox."""
        return "" if self.agent.user is None else str(self.agent.user)

    @property
    def network(self) -> Literal["none", "public", "allowlist"]:
        """What the agent asks to reach besides the model.

        Only what task.toml says in so many words counts: the format's own default is the whole internet, and few tasks need it.
        """
        mode = self.agent.network_mode or self.environment.network_mode
        return "none" if mode is None or mode == "no-network" else mode

    @property
    def serve(self) -> str:
        """Shell command of what serves the agent on 127.0.0.1:$PORT; empty for none."""
        return str(self.metadata.get("serve", ""))

    @property
    def keeps(self) -> bool:
        """What is handed to a separate verifier stays in the run folder, for whoever had the task made."""
        return self.metadata.get("keep_artifacts") is True

    @property
    def compose(self) -> Path | None:
        """The file that describes several containers, if it has one."""
        return next((path for name in COMPOSE if (path := self.environment_dir / name).is_file()), None)


def load_task(folder: Path) -> Task:
    """Reads and checks a task folder.

    Raises:
        TaskError: the folder, task.toml, instruction.md or tests/test.sh is missing or unreadable, or a value is unusable.
    """
    if not folder.is_dir():
        raise TaskError(f"{folder}: no such task folder")
    folder = folder.resolve()
    file = parse(folder / "task.toml")
    name = file.task.get("name", folder.name)
    if not isinstance(name, str) or not name:
        raise TaskError(f"{folder}/task.toml: task.name: expected a text")
    if "serve" in file.metadata and not (isinstance(file.metadata["serve"], str) and file.metadata["serve"].strip()):
        raise TaskError(f"{folder}/task.toml: metadata.serve: expected a shell command that serves on 127.0.0.1:$PORT")
    if not isinstance(file.metadata.get("keep_artifacts", False), bool):
        raise TaskError(f"{folder}/task.toml: metadata.keep_artifacts: expected true or false")
    steps = _steps(folder, file)
    return Task(
        folder=folder, name=name, instruction=steps[0].instruction, agent=file.agent, verifier=file.verifier,
        environment=file.environment, solution=file.solution, metadata=file.metadata, steps=steps,
        strategy=file.multi_step_reward_strategy or "mean", source=file.source or "",
        artifacts=tuple(file.artifacts),
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


def parse(file: Path) -> TaskFile:
    """Reads a task.toml.

    Raises:
        TaskError: it is missing, not TOML, or a value is unusable; the text names the place.
    """
    try:
        return msgspec.convert(renew(tomllib.loads(_read(file))), TaskFile)
    except tomllib.TOMLDecodeError as e:
        raise TaskError(f"{file}: not valid TOML: {e}") from None
    except msgspec.ValidationError as e:
        what, _, where = str(e).partition(" - at `$.")
        raise TaskError(f"{file}: {where.rstrip('`') or 'content'}: {what}") from None
    except ValueError as e:
        raise TaskError(f"{file}: {e}") from None


def _steps(folder: Path, file: TaskFile) -> tuple[Step, ...]:
    if not file.steps:
        bundled = file.verifier.environment is not None and file.verifier.environment.docker_image
        if not bundled and not (file.verifier.separate and (folder / "tests" / "Dockerfile").is_file()):
            _check_verifier(folder, folder / "tests")
        only = Step(
            name="", instruction=_read(folder / "instruction.md"), agent=file.agent, verifier=file.verifier,
            tests=(folder / "tests",), solution=folder / "solution", files=folder / "environment",
            healthcheck=file.environment.healthcheck,
        )  # fmt: skip
        return (only,)
    steps = []
    for said in file.steps:
        own = folder / "steps" / said.name
        tests = tuple(path for path in (folder / "tests", own / "tests") if path.is_dir())
        _check_verifier(own, *tests)
        step = Step(
            name=said.name, instruction=_read(own / "instruction.md"), agent=_over(file.agent, said.agent),
            verifier=_over(file.verifier, said.verifier), tests=tests, solution=own / "solution", files=own / "workdir",
            healthcheck=said.healthcheck, min_reward=said.min_reward,
        )  # fmt: skip
        steps.append(step)
    return tuple(steps)


def _over(general: Any, own: Any) -> Any:
    """A step's section over the task's: what the step does not say is the task's."""
    said = {name: value for name in own.__struct_fields__ if (value := getattr(own, name)) not in (None, {}, [])}
    return msgspec.structs.replace(general, **said)


def _check_verifier(folder: Path, *tests: Path) -> None:
    if not any((path / "test.sh").is_file() for path in tests):
        raise TaskError(f"{folder}: no tests/test.sh: a task without a verifier cannot be rewarded")


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise TaskError(f"{file.parent}: no {file.name}") from None
    except (OSError, UnicodeDecodeError) as e:
        raise TaskError(f"{file}: {e}") from None

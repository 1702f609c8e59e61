"""Harness adapters: how an unmodified agent program is started and pointed at a rollout's own model endpoint.

An adapter is one TOML file (`adapter.py` describes it): one of `adapters/`, or a user's own in `orchestrator.harness_dir`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from shared.roles import RoleRule


@dataclass(frozen=True, slots=True)
class Request:
    """What a launch is made for.

    Attributes:
        base_url: of the rollout's model endpoint, without an API's own path: `http://host:port/run/<secret>`.
        key: what the program may show as its API key: the rollout's secret.
        model: name to ask for.
        context_length: tokens of prompt and reply together that the engine serves.
        instruction: the task.
        home: the agent's home folder, as it sees it.
        logs: its folder for logs, as it sees it.
        workdir: the folder that it starts in, as it sees it.
        metadata: the task's free table; adapters name the keys that they read.
        in_image: the program is what a harness image brings into a container; else what is installed on this machine.
    """

    base_url: str
    key: str
    model: str
    context_length: int
    instruction: str
    home: str
    logs: str
    workdir: str
    metadata: Mapping[str, Any] = field(default_factory=dict)
    in_image: bool = False


@dataclass(frozen=True, slots=True)
class Launch:
    """How to start an agent program; its current folder is the task's working folder.

    Attributes:
        argv: absolute program and arguments.
        env: variables on top of the sandbox's own.
        files: texts to write into the home folder, by relative path.
        read_only: folders of the machine that the program is made of.
        solution: the program gets the task's solution.
    """

    argv: tuple[str, ...]
    env: dict[str, str] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)
    read_only: tuple[Path, ...] = ()
    solution: bool = False


class Harness(Protocol):
    """A program that rollouts can be run in."""

    def roles(self) -> list[RoleRule]:
        """Which of its calls are not its main conversation."""
        ...

    def launch(self, request: Request) -> Launch:
        """How to start the program.

        Raises:
            HarnessError: the program is not installed, or the task asks it for something that it cannot do.
        """
        ...


def harness(name: str, folder: str = "") -> Harness:
    """The harness of that name.

    Args:
        name: of an adapter.
        folder: a user's own adapters (`orchestrator.harness_dir`), looked into before the built-in ones; empty for none.

    Raises:
        HarnessError: there is none of that name, or its file is not a valid adapter.
    """
    from services.orchestrator.harnesses.library import adapter_file
    from services.orchestrator.harnesses.program import Program

    return Program(adapter_file(name, folder))

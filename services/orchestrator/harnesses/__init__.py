"""Harness adapters: how an unmodified agent program is started and pointed at a rollout's own model endpoint."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from shared.errors import HarnessError


@dataclass(frozen=True, slots=True)
class Request:
    """What a launch is made for.

    Attributes:
        base_url: of the rollout's OpenAI-compatible endpoint, `/v1` included.
        model: name to ask for.
        instruction: the task.
        metadata: the task's free table; adapters document the keys that they read.
        home: the agent's home folder, as it sees it.
        logs: its folder for logs, as it sees it.
    """

    base_url: str
    model: str
    instruction: str
    home: str
    logs: str
    metadata: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Launch:
    """How to start an agent program; its current folder is the task's working folder.

    Attributes:
        argv: absolute program and arguments.
        env: variables on top of the sandbox's own.
        files: texts to write into the home folder, by relative path.
        read_only: folders of the machine that the program is made of.
    """

    argv: tuple[str, ...]
    env: dict[str, str] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)
    read_only: tuple[Path, ...] = ()


class Harness(Protocol):
    """An adapter."""

    def launch(self, request: Request) -> Launch:
        """How to start the program.

        Raises:
            HarnessError: the program is not installed, or the task asks it for something that it cannot do.
        """
        ...


def harness(name: str) -> Harness:
    """The adapter of that name.

    Raises:
        HarnessError: there is none.
    """
    from services.orchestrator.harnesses.mini import Mini
    from services.orchestrator.harnesses.react import React

    known: dict[str, Harness] = {"react": React(), "mini": Mini()}
    if name not in known:
        raise HarnessError(f"no harness {name!r}; known: {', '.join(sorted(known))}")
    return known[name]

"""What models are asked for. Fields have no defaults: they become JSON schemas whose every field is required."""

from __future__ import annotations

import msgspec


class Idea(msgspec.Struct, frozen=True):
    """An idea of a task.

    Attributes:
        title: a line, in words that tell it from other tasks.
        brief: what the agent will be asked for, what it finds, and what is right at the end.
        environment: files and data that have to be there.
        check: how a program can tell, from what is left, whether it was done.
        skills: what it calls for.
    """

    title: str
    brief: str
    environment: str
    check: str
    skills: list[str]


class File(msgspec.Struct, frozen=True):
    """A text file: where, and its whole content."""

    path: str
    content: str


class Built(msgspec.Struct, frozen=True):
    """A task.

    Attributes:
        instruction: what the agent is asked.
        agent_minutes: that it may take.
        files: of environment/, tests/ and solution/.
    """

    instruction: str
    agent_minutes: int
    files: list[File]


class Mended(msgspec.Struct, frozen=True):
    """A change of a task.

    Attributes:
        cause: why it failed.
        files: that are new or different, whole; `instruction.md` is one.
        removed: paths of files that go.
    """

    cause: str
    files: list[File]
    removed: list[str]


class Kept(msgspec.Struct, frozen=True):
    """A judgement on a conversation: whether others should learn from it, and why."""

    keep: bool
    why: str

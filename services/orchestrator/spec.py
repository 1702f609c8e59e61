"""What a runner is told (spec.json) and what it tells back (status.json).

Plain dictionaries with types, because the runner is a script that reads them with the standard library alone.
"""

from __future__ import annotations

from typing import TypedDict


class Copy(TypedDict):
    """A tree to copy before a phase: from `source` into the folder `target`, without the top-level names in `skip`."""

    source: str
    target: str
    skip: list[str]


class Phase(TypedDict):
    """One program that a runner runs.

    Attributes:
        name: `agent` or `verify`, its key in the status.
        fresh: folders to make anew; what was there is removed. The sandbox's owner gets them with their content.
        copies: trees to copy into them.
        files: texts to write, by path.
        executable: files to make executable.
        argv: absolute program and its arguments, sandbox included.
        env: its whole environment.
        cwd: folder that it starts in.
        timeout_s: wall-clock limit in seconds.
        monitored: the program is a monitor around the sandbox, to be spared when the sandboxed are asked to end.
        log: file that gets what the program prints.
        collect: small files to take over into the status afterwards.
    """

    name: str
    fresh: list[str]
    copies: list[Copy]
    files: dict[str, str]
    executable: list[str]
    argv: list[str]
    env: dict[str, str]
    cwd: str
    timeout_s: float
    monitored: bool
    log: str
    collect: list[str]


class Spec(TypedDict):
    """One attempt.

    Attributes:
        status: path of the status file.
        owner: user and group id that the folders are given to; None leaves them the runner's.
        log_bytes: of a program's output that are kept.
        grace_s: seconds between asking a program to end and killing it.
        phases: in order; the next one runs unless the attempt was cancelled or failed.
    """

    status: str
    owner: int | None
    log_bytes: int
    grace_s: float
    phases: list[Phase]


class PhaseStatus(TypedDict):
    """How a phase went: exit code (negative: ended by that signal), out of time, wall-clock seconds, collected texts."""

    exit_code: int | None
    timed_out: bool
    seconds: float
    collected: dict[str, str]


class Status(TypedDict):
    """State of an attempt.

    Attributes:
        pid: of the runner.
        phase: `prepare`, `agent`, `verify`, or one of `FINAL`.
        error: why the attempt failed, for a person.
        phases: results of the phases that ended, by name: `agent`, `verify`.
    """

    pid: int
    phase: str
    error: str | None
    phases: dict[str, PhaseStatus]


FINAL = frozenset({"done", "cancelled", "failed"})
"""Phases after which a runner ends."""

"""One child process of the supervisor: started in its own session, its output in a log file, ended whole."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import signal
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

_LIBC = ctypes.CDLL(None, use_errno=True)
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER, _PR_GET_CHILD_SUBREAPER = 1, 36, 37
GRACE_S = 8.0


@dataclass(frozen=True, slots=True)
class ProcessSpec:
    """How a child is run.

    Attributes:
        name: shown to people.
        argv: command line.
        env: added to the supervisor's environment.
        log: file that gets its output.
        restart: start it again when it dies; otherwise its death ends the run.
        once_ready: only if it was ready once; one that never was cannot start.
        whole: what is left of its process group is ended before it is started again.
        restarts: so many within `window_s` seconds; one death more ends the run.
        window_s: see `restarts`; deaths that are that long ago, or before `Supervisor.thrives`, do not count.
        unless_failed: not if it ended with an error, as it would do again; only if it was killed, or asked to end.
        backoff_s: seconds before the first restart in the window; each further one waits twice as long.
        ready: answers whether it is ready; asked again and again.
        grace_s: seconds between SIGTERM and SIGKILL.
    """

    name: str
    argv: list[str]
    log: Path
    env: dict[str, str] = field(default_factory=dict)
    restart: bool = True
    once_ready: bool = False
    whole: bool = False
    restarts: int = 5
    window_s: float = 60.0
    unless_failed: bool = False
    backoff_s: float = 0.1
    ready: Callable[[], Awaitable[bool]] | None = None
    grace_s: float = GRACE_S


def adopt_orphans(adopt: bool = True) -> bool:
    """Makes this process the parent of descendants whose own parent died, so that none is left behind at the end; or no longer.

    Returns:
        Whether it was before.
    """
    before = ctypes.c_int()
    _LIBC.prctl(_PR_GET_CHILD_SUBREAPER, ctypes.byref(before))
    _LIBC.prctl(_PR_SET_CHILD_SUBREAPER, int(adopt))
    return bool(before.value)


def _die_with_parent() -> None:
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


async def spawn(spec: ProcessSpec) -> asyncio.subprocess.Process:
    """Starts a child. It gets no terminal (Ctrl-C reaches the supervisor alone) and ends when the supervisor is killed.

    Raises:
        OSError: the program could not be started.
    """
    spec.log.parent.mkdir(parents=True, exist_ok=True)
    with spec.log.open("ab") as log:
        return await asyncio.create_subprocess_exec(
            *spec.argv,
            env={**os.environ, **spec.env},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            preexec_fn=_die_with_parent,
        )


async def end(process: asyncio.subprocess.Process, grace_s: float) -> None:
    """SIGTERM, then SIGKILL to its whole process group after `grace_s` seconds."""
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), grace_s)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    await process.wait()


def describe_exit(code: int) -> str:
    """An exit status for a person: `exit code 1`, `signal SIGKILL`."""
    if code < 0:
        with contextlib.suppress(ValueError):
            return f"signal {signal.Signals(-code).name}"
    return f"exit code {code}"


def last_words(log: Path, limit: int = 300) -> str:
    """The last line of a log that says something, shortened; empty if there is none."""
    try:
        lines = log.read_text(errors="replace")[-20_000:].splitlines()
    except OSError:
        return ""
    telling = [line.strip() for line in lines if "Error" in line or "error" in line] or [line.strip() for line in lines]
    return next((line[-limit:] for line in reversed(telling) if line), "")

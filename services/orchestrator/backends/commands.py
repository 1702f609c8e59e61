"""Commands in local sandboxes: they enter the namespaces of a process that runs there, as the user that it runs as."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from services.orchestrator.backends.port import OUTPUT_BYTES, Ran
from services.orchestrator.backends.spawner import ROOT
from services.orchestrator.sandbox import Isolation
from shared.errors import SandboxError

_ENTER = "import sys; sys.path.insert(0, sys.argv[1]); from services.orchestrator.backends.enter import main; main()"
_IN = 'cd "$1" && shift && exec "$@"'
CHUNK = 65536


def entering(pid: int | None, isolation: Isolation, workdir: str, argv: Sequence[str]) -> list[str]:
    """The command line that runs `argv` beside the process `pid`; without one, in the sandbox that is no namespace."""
    enter = [sys.executable, "-I", "-S", "-c", _ENTER, ROOT, str(pid)] if pid else []
    return [*enter, *isolation.drop, "/bin/sh", "-c", _IN, "sh", workdir, *argv]


async def run(argv: Sequence[str], env: dict[str, str], timeout_s: float, source: int | None = None) -> Ran:
    """Runs a command line; its output is read to the end, and the first `OUTPUT_BYTES` of it are kept.

    Args:
        argv: program and arguments.
        env: its environment.
        timeout_s: after which it is killed.
        source: open file that it reads; None for nothing.

    Raises:
        SandboxError: it could not be started, or did not end in time.
    """
    output = bytearray()

    def keep(chunk: bytes) -> None:
        output.extend(chunk[: OUTPUT_BYTES - len(output)])

    code = await stream(argv, env, timeout_s, keep, source)
    return Ran(code, bytes(output))


async def stream(
    argv: Sequence[str], env: dict[str, str], timeout_s: float, take: Callable[[bytes], object], source: int | None = None
) -> int:
    """Runs a command line, gives away what it prints as it comes, and returns its exit code. Raises as `run` does."""
    null = asyncio.subprocess.DEVNULL
    try:
        process = await asyncio.create_subprocess_exec(
            *argv, env=env, stdin=null if source is None else source, stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
    except OSError as e:
        raise SandboxError(f"{argv[0]} could not be started: {e}") from e
    assert process.stdout is not None, "it is a pipe"
    try:
        async with asyncio.timeout(timeout_s):
            while chunk := await process.stdout.read(CHUNK):
                take(chunk)
            return await process.wait()
    except TimeoutError:
        raise SandboxError(f"the command did not end within {timeout_s:g} s: {' '.join(argv)[-200:]}") from None
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()


def tail(path: Path, size: int = 400) -> str:
    """The end of a file, for a person; empty if it is not there."""
    return path.read_bytes()[-size:].decode(errors="replace").strip() if path.exists() else ""

"""Runners as processes of this machine.

A runner holds the lock on its log file for as long as it lives: it inherits the locked file, so there is no moment at which
it runs unseen, and no process number that may since belong to somebody else.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import signal
from pathlib import Path

import msgspec

from services.orchestrator.backends.spawner import Spawner
from services.orchestrator.records import SPEC, STATUS, replace_file
from services.orchestrator.spec import FINAL, Spec, Status
from shared.errors import SandboxError

LOG = "runner.log"
POLL_S = 0.01


class LocalBackend:
    """Runners whose records lie in `root`, one folder a session."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._spawner = Spawner()
        self._runners: dict[str, int] = {}  # session id -> pidfd
        self._cancelled: set[str] = set()

    def start(self, session_id: str, spec: Spec) -> None:
        """See `Backend.start`."""
        folder = self._root / session_id
        try:
            replace_file(folder / SPEC, msgspec.json.encode(spec))
            self._register(session_id, os.pidfd_open(self._spawn(folder)))
        except OSError as e:
            raise SandboxError(f"the runner of {session_id} could not be started: {e}") from e

    async def wait(self, session_id: str) -> Status:
        """See `Backend.wait`."""
        folder = self._root / session_id
        if session_id not in self._runners:
            await self._adopt(session_id)
        if session_id in self._runners:
            await _readable(self._runners[session_id])
            self._forget(session_id)
        status = _read_status(folder)
        if status is None or status["phase"] not in FINAL:
            said = _tail(folder / LOG) or "it said nothing"
            raise SandboxError(f"the runner of {session_id} died in phase {status and status['phase']!r}: {said}")
        return status

    def cancel(self, session_id: str) -> None:
        """See `Backend.cancel`."""
        self._cancelled.add(session_id)
        if session_id in self._runners:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._runners[session_id], signal.SIGTERM)

    def limit(self, session_id: str) -> float:
        """See `Backend.limit`."""
        spec = msgspec.json.decode((self._root / session_id / SPEC).read_bytes(), type=Spec)
        return spec["phases"][0]["timeout_s"]

    def close(self) -> None:
        """See `Backend.close`."""
        self._spawner.close()

    def _spawn(self, folder: Path) -> int:
        log = os.open(folder / LOG, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            fcntl.flock(log, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return self._spawner.spawn(folder / SPEC, log)
        finally:
            os.close(log)

    async def _adopt(self, session_id: str) -> None:
        """Takes over a runner that somebody else started, if it lives. Its number stands in its status soon after its start."""
        folder = self._root / session_id
        while _locked(folder / LOG):
            status = _read_status(folder)
            if status is not None and (fd := _open_process(status["pid"])) is not None:
                if _locked(folder / LOG):  # it still lived when its number was looked up, so the number is its own
                    self._register(session_id, fd)
                    return
                os.close(fd)
            await asyncio.sleep(POLL_S)

    def _register(self, session_id: str, fd: int) -> None:
        self._runners[session_id] = fd
        if session_id in self._cancelled:
            self.cancel(session_id)

    def _forget(self, session_id: str) -> None:
        self._cancelled.discard(session_id)
        os.close(self._runners.pop(session_id))


async def _readable(fd: int) -> None:
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    loop.add_reader(fd, ended.set)
    try:
        await ended.wait()
    finally:
        loop.remove_reader(fd)


def _open_process(pid: int) -> int | None:
    try:
        return os.pidfd_open(pid)
    except ProcessLookupError:
        return None


def _locked(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False


def _read_status(folder: Path) -> Status | None:
    try:
        return msgspec.json.decode((folder / STATUS).read_bytes(), type=Status)
    except FileNotFoundError:
        return None
    except msgspec.DecodeError as e:
        raise SandboxError(f"{folder / STATUS}: {e}") from e


def _tail(path: Path) -> str:
    return path.read_bytes()[-400:].decode(errors="replace").strip() if path.exists() else ""

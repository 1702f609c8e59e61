"""Child processes of the benchmark, and what they use."""

from __future__ import annotations

import asyncio
import os
import subprocess
import time
from pathlib import Path
from typing import Self

import aiohttp
import psutil

_START_S = 60.0
_POLL_S = 0.02
_CPUCLOCK_SCHED = 2


class Failed(Exception):
    """A process did not come up, or a load did not get through. The message says why."""


class Child:
    """A process with a log; ended when the context is left.

    Args:
        command: argv.
        log: file for its output.
        env: added to this process's environment.
    """

    def __init__(self, command: list[str], log: Path, env: dict[str, str] | None = None) -> None:
        self._log = log
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                command, env=os.environ | (env or {}), stdin=subprocess.DEVNULL, stdout=output, stderr=output
            )

    @property
    def pid(self) -> int:
        """Of the process."""
        return self._process.pid

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    async def answering(self, url: str) -> None:
        """Returns when `url` answers 200.

        Raises:
            Failed: the process ended, or it does not in a minute.
        """
        until = time.monotonic() + _START_S
        async with aiohttp.ClientSession() as http:
            while time.monotonic() < until and self._process.poll() is None:
                try:
                    async with http.get(url) as response:
                        if response.status == 200:
                            return
                except aiohttp.ClientError:
                    pass
                await asyncio.sleep(_POLL_S)
        raise Failed(f"{self._log.name}: {self._log.read_text(errors='replace')[-600:].strip()}")


def cpu_s(pid: int) -> float:
    """User and system time that a process has used so far, to the nanosecond (psutil knows it to 10 ms)."""
    return time.clock_gettime_ns((~pid << 3) | _CPUCLOCK_SCHED) / 1e9


def rss_mb(pid: int) -> float:
    """Resident memory of a process."""
    return float(psutil.Process(pid).memory_info().rss) / 1024**2

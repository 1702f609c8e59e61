"""Control groups of a phase: made before it, read and removed after it. The files that they have tell their version."""

# ruff: noqa: SIM105 - contextlib costs milliseconds at every start
from __future__ import annotations

import os
import time

TYPE_CHECKING = False  # importing typing would double the time of a start
if TYPE_CHECKING:
    from services.orchestrator.spec import Cgroup

_MIB = 1 << 20
_PEAK = ("memory.peak", "memory.max_usage_in_bytes")
_OOM = ("memory.events", "memory.oom_control")
_SWAP = "memory.swap.max"  # a kernel without swap, or that does not count it, has none
_GONE_S = 2.0


def make(groups: list[Cgroup]) -> None:
    """Makes groups, in place of what an earlier phase left.

    Raises:
        OSError: they cannot be.
    """
    for group in groups:
        try:
            os.mkdir(group["folder"])
        except FileExistsError:
            remove([group])
            os.mkdir(group["folder"])
        for name, value in group["settings"].items():
            try:
                _write(f"{group['folder']}/{name}", value)
            except FileNotFoundError:
                if name != _SWAP:
                    raise


def join(groups: list[Cgroup]) -> None:
    """Puts this process, which has one thread, into groups. Version 1 has a file for threads, which spares it some 20 ms of
    waiting for all processors.

    Raises:
        OSError: it may not.
    """
    for group in groups:
        try:
            _write(f"{group['folder']}/tasks", "0")
        except FileNotFoundError:
            _write(f"{group['folder']}/cgroup.procs", "0")


def remove(groups: list[Cgroup]) -> None:
    """Removes groups whose processes have all ended; the kernel may notice that a little late.

    Raises:
        OSError: one is still in use.
    """
    until = time.monotonic() + _GONE_S
    for group in groups:
        while True:
            try:
                os.rmdir(group["folder"])
            except FileNotFoundError:
                break
            except OSError:
                if time.monotonic() > until:
                    raise
                time.sleep(0.005)


def give_up(groups: list[Cgroup]) -> None:
    """Removes those groups that can be removed at once; the orchestrator sweeps the others away one day."""
    for group in groups:
        try:
            os.rmdir(group["folder"])
        except OSError:
            pass


def used(groups: list[Cgroup]) -> dict[str, float]:
    """`memory_mb` at the peak and `cpu_s`, where the groups tell them."""
    found = {}
    for group in groups:
        peak = next((text for name in _PEAK if (text := _read(group, name))), "")
        if peak:
            found["memory_mb"] = round(int(peak) / _MIB, 1)
        if nanoseconds := _read(group, "cpuacct.usage"):
            found["cpu_s"] = round(int(nanoseconds) / 1e9, 3)
        elif usage := _field(_read(group, "cpu.stat"), "usage_usec"):
            found["cpu_s"] = round(usage / 1e6, 3)
    return found


def ran_out_of_memory(groups: list[Cgroup]) -> bool:
    """Whether the kernel killed a process of the groups for want of memory."""
    return any(_field(_read(group, name), "oom_kill") for group in groups for name in _OOM)


def _write(path: str, text: str) -> None:
    fd = os.open(path, os.O_WRONLY)
    try:
        os.write(fd, text.encode())
    finally:
        os.close(fd)


def _read(group: Cgroup, name: str) -> str:
    try:
        with open(f"{group['folder']}/{name}", encoding="utf-8") as file:
            return file.read()
    except FileNotFoundError:
        return ""


def _field(text: str, name: str) -> int:
    return next((int(line.split()[1]) for line in text.splitlines() if line.split()[0] == name), 0)

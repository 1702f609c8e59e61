"""The time that programs of a sandbox see, if it is not to be the real one: libfaketime, loaded into each of them.

It reaches what asks the C library, Node and Python among them; not programs that ask the kernel by themselves: static ones
(Codex, most of what is written in Go) have the real time. Files have the real one too: programs that compare them with what
they made of them (Python, make) would take all of an image for changed.
"""

from __future__ import annotations

import glob
from dataclasses import dataclass, field
from functools import cache

from services.orchestrator.harnesses.layout import TOOLS
from services.orchestrator.runner.clock import LIBRARY, NAME, SHARED
from services.orchestrator.sandbox import Kind
from services.orchestrator.spec import Clock
from shared.clock import unix
from shared.errors import ConfigError

BROUGHT = f"{TOOLS}/lib/{LIBRARY}"
"""In containers, which get it with their harness."""
_OF_DEBIAN = f"/usr/lib/*/faketime/{LIBRARY}"
_MEMORY = "/dev/shm"
_ENV = {
    "NO_FAKE_STAT": "1", "FAKE_UTIME": "0", "FAKETIME_DONT_FAKE_MONOTONIC": "1", "FAKETIME_SHARED": f"/{NAME} /{NAME}",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Seen:
    """What has a program see a clock.

    Attributes:
        clock: for the runner; None where programs see the real time.
        env: of the program.
        command: to put before it.
        fresh: folders to make anew before: what the library shares belongs to the phase's user and starts with its phase.
        files: to show in the sandbox: where they are, and where it has them.
    """

    clock: Clock | None = None
    env: dict[str, str] = field(default_factory=dict)
    command: tuple[str, ...] = ()
    fresh: tuple[str, ...] = ()
    files: tuple[tuple[str, str], ...] = ()


def clock_of(time: str, kind: Kind, folder: str) -> Seen:
    """Has the programs of a sandbox see time go on from `time` when the attempt's first program starts.

    Args:
        time: ISO time.
        kind: of sandbox.
        folder: of this machine, for this phase alone; containers have one of their own.

    Raises:
        ConfigError: sandboxes of that kind, or this machine, cannot do that; the text says what to do.
    """
    if kind == "container":
        clock = Clock(begins=unix(time), library=BROUGHT, folder=_MEMORY)
        return Seen(clock, _ENV | {"LD_PRELOAD": BROUGHT}, fresh=(_MEMORY,))
    if kind != "bubblewrap":
        raise ConfigError(f"orchestrator.clock needs bubblewrap or containers: it is not set in sandboxes of the kind {kind!r}")
    library = _installed()
    # not in the environment: bubblewrap and setpriv are root and would leave semaphores of root
    clock, command = Clock(begins=unix(time), library=library, folder=folder), ("/usr/bin/env", f"LD_PRELOAD={library}")
    return Seen(clock, _ENV, command, (folder,), tuple((f"{folder}/{name}", f"{_MEMORY}/{name}") for name in SHARED))


@cache
def _installed() -> str:
    found = glob.glob(_OF_DEBIAN)
    if not found:
        raise ConfigError("orchestrator.clock needs libfaketime in local sandboxes: apt-get install -y libfaketime")
    return found[0]

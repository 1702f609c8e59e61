"""Places that a hostile agent is let loose in: each runs one attempt with it and tells how that went."""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from services.orchestrator.spec import Status
from tests.unit.orchestrator.runners import OTHER_UID, Bench

_REACHED = "REACHED "
PROGRAM = Path(__file__).parent / "agent.py"


@dataclass(frozen=True)
class Outcome:
    """How an attempt with a hostile agent went: the runner's status, and what agent and verifier printed."""

    status: Status
    printed: str
    verified: str

    @property
    def reached(self) -> dict[str, Any]:
        """What the agent says it reached; nothing if it did not get that far. The verifier tells it."""
        told = next((line for line in self.verified.splitlines() if line.startswith(_REACHED)), _REACHED + "{}")
        return dict(json.loads(told.removeprefix(_REACHED) or "{}"))


class Arena(Protocol):
    """One kind of sandbox."""

    app: str
    """Working folder as the agent sees it."""
    open_network: bool
    """It is known not to keep an agent from the machine's network."""
    outside: str
    """An address of the machine by which its network is known to reach the machine; empty if there is none."""
    own_root: bool
    """It sees a root folder that it may write to, gone afterwards, and a first process of its own user, not the runner."""

    async def run(self, order: dict[str, Any], *, timeout_s: float) -> Outcome:
        """Runs the agent with an order, and the verifier after it."""
        ...


class Local:
    """Sandboxes of this machine."""

    outside = ""

    def __init__(self, bench: Bench, *, as_somebody: bool = False) -> None:
        self._bench, self._as_somebody = bench, as_somebody
        if as_somebody:
            bench.isolation = replace(bench.isolation, root=False, setpriv="")
        self.own_root = as_somebody
        self.open_network = not bench.isolation.network
        self.app = "/app" if bench.isolation.kind == "bubblewrap" else str(bench.inside("app"))

    async def run(self, order: dict[str, Any], *, timeout_s: float) -> Outcome:
        """See `Arena.run`."""
        spec = self._bench.spec(script("/usr/bin/python3", order), timeout_s=timeout_s, log_bytes=1_000_000)
        if self._as_somebody:
            for phase in spec["phases"]:
                phase["user"], phase["drops"] = str(OTHER_UID), True
        status = await self._bench.carry_out(spec)
        return Outcome(status, self._bench.log("agent"), self._bench.log("verify"))


def script(python: str, order: dict[str, Any]) -> str:
    """The agent as a shell script."""
    return f"exec {python} - {shlex.quote(json.dumps(order))} <<'HOSTILE'\n{PROGRAM.read_text()}\nHOSTILE\n"

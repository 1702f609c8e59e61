"""Places that a hostile agent is let loose in: each runs one attempt with it and tells how that went."""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from services.orchestrator.spec import Status
from tests.unit.orchestrator.runners import OTHER_UID, Bench

PROGRAM = Path(__file__).parent / "agent.py"


@dataclass(frozen=True)
class Outcome:
    """How an attempt with a hostile agent went: the runner's status, what the agent printed, and what it says it reached."""

    status: Status
    printed: str
    reached: dict[str, Any] = field(default_factory=dict)


class Arena(Protocol):
    """One kind of sandbox."""

    app: str
    """Working folder as the agent sees it."""
    open_network: bool
    """It is known not to keep an agent from the machine's network."""

    own_root: bool
    """It sees a root folder that it may write to, gone afterwards, and a first process of its own user that is not the runner."""

    async def run(self, order: dict[str, Any], *, timeout_s: float) -> Outcome:
        """Runs the agent with an order, and the verifier after it."""
        ...

    def left(self, path: str) -> Path:
        """Where a file of the working folder lies on the machine afterwards."""
        ...


class Local:
    """Sandboxes of this machine."""

    def __init__(self, bench: Bench, *, as_somebody: bool = False) -> None:
        self._bench, self._as_somebody = bench, as_somebody
        if as_somebody:
            bench.isolation = replace(bench.isolation, root=False, setpriv="")
        self.own_root = as_somebody
        self.open_network = not bench.isolation.network
        self.app = "/app" if bench.isolation.kind == "bubblewrap" else str(bench.inside("app"))

    async def run(self, order: dict[str, Any], *, timeout_s: float) -> Outcome:
        """See `Arena.run`."""
        script = f"exec /usr/bin/python3 - {shlex.quote(json.dumps(order))} <<'HOSTILE'\n{PROGRAM.read_text()}\nHOSTILE\n"
        spec = self._bench.spec(script, timeout_s=timeout_s, log_bytes=1_000_000)
        if self._as_somebody:
            for phase in spec["phases"]:
                phase["user"], phase["drops"] = str(OTHER_UID), True
        status = await self._bench.carry_out(spec)
        printed = self._bench.log("agent")
        return Outcome(status, printed, reached(self._bench.inside("app/reached.json")))

    def left(self, path: str) -> Path:
        """See `Arena.left`."""
        return self._bench.inside(f"app/{path}")


def reached(file: Path) -> dict[str, Any]:
    """What the agent wrote down; nothing if it did not get that far."""
    return dict(json.loads(file.read_text())) if file.exists() else {}

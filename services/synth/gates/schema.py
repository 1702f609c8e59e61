"""Schema and lint: what is wrong with a task by reading it."""

from __future__ import annotations

from pathlib import Path

from services.synth.gates.base import Looking
from services.synth.model import Proposal, Verdict
from services.synth.ports import Room
from shared.config import OrchestratorConfig
from shared.task.lint import Reason, lint

FATAL: tuple[Reason, ...] = (
    "cannot-load", "secret", "tests-in-image", "tests-in-environment", "fetches-in-verifier", "unpinned", "no-reward-written",
    "empty-instruction", "no-solution", "unknown-field", "cannot-run-here",
)  # fmt: skip
"""What a task is turned down for; the first one that is found is the verdict's reason. The rest of what lint says is kept."""


class Schema(Looking):
    """Stricter than `openforge tasks check`: what is only a warning of somebody else's task is wrong with a new one."""

    name = "schema"

    def __init__(self, settings: OrchestratorConfig) -> None:
        self._settings = settings

    async def look(self, proposal: Proposal, folder: Path, room: Room) -> Verdict:
        """See `Looking.look`."""
        found = lint(folder, self._settings.backend, self._settings.network)[1]
        every = [{"reason": one.reason, "text": one.text} for one in found]
        wrong = sorted((one for one in found if one.reason in FATAL), key=lambda one: FATAL.index(one.reason))
        if not wrong:
            return self.passed(f"{len(every)} remarks" if every else "", findings=every)
        return self.failed(wrong[0].reason, "; ".join(one.text for one in wrong), findings=every)

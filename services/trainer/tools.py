"""What the stages of a run share."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from services.trainer.books.files import RunFiles, Summary
from services.trainer.groups.desk import GroupDesk
from services.trainer.journal.history import History
from services.trainer.ports import LearnerFactory
from services.trainer.thread import LearnerThread
from services.trainer.weights.fleet import Fleet
from shared.bus import Bus
from shared.config import Config
from shared.events import RunStaged
from shared.store.sessions import Sessions

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Tools:
    """What the stages of a run share.

    Attributes:
        config: resolved.
        bus: told of stages, steps and weights.
        sessions: say which engines take calls.
        engine: the engines, which sample.
        desk: starts groups.
        history: what happened so far, and its state.
        files: the run folder.
        summary: what is known of the run so far.
        factory: makes learners.
        thread: in which they work.
    """

    config: Config
    bus: Bus
    sessions: Sessions
    engine: Fleet
    desk: GroupDesk
    history: History
    files: RunFiles
    summary: Summary
    factory: LearnerFactory
    thread: LearnerThread

    async def stage(self, stage: str, detail: str, done: int = 0, total: int = 0) -> None:
        """Tells people what is being done."""
        log.info("%s: %s (%d/%d)", stage, detail, done, total)
        await self.bus.publish(RunStaged(run_id=self.config.run.id, stage=stage, detail=detail, done=done, total=total))

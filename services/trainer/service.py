"""The trainer: carries a run from warm start to trained weights. Torch and veRL are imported only when a run begins."""

from __future__ import annotations

import asyncio
import logging
import os
from pathlib import Path

import msgspec

from services.trainer.desk import GroupDesk
from services.trainer.files import RunFiles, Summary
from services.trainer.fleet import Fleet
from services.trainer.ledger import Ledger
from services.trainer.ports import Learner, LearnerFactory, LearnerSettings
from services.trainer.run import Run
from services.trainer.thread import LearnerThread
from services.trainer.tools import Tools
from shared.bus import Bus
from shared.config import Config
from shared.errors import Rejected
from shared.events import GroupCompleted, GroupDiscarded, Message, RunFinished, RunStart, SessionSealed
from shared.store.blobs import Blobs
from shared.store.sessions import Sessions

log = logging.getLogger(__name__)


def verl_learner(model: Path, settings: LearnerSettings) -> Learner:
    """A learner on veRL's training worker."""
    # Torch's threads spin while they wait for each other. With as many processes as cores, a step then takes ten times as long.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    from services.trainer.learner import VerlLearner

    return VerlLearner(model, settings)


class TrainerService:
    """The trainer of one run.

    Args:
        config: resolved.
        bus: starts the run, brings groups, is told of everything.
        sessions: say which engines take calls.
        blobs: holds groups that are too large for the bus.
        factory: makes learners.
    """

    def __init__(
        self, config: Config, bus: Bus, sessions: Sessions, blobs: Blobs, *, factory: LearnerFactory = verl_learner
    ) -> None:
        self._config = config
        self._bus = bus
        self._sessions = sessions
        self._factory = factory
        self._desk = GroupDesk(config, bus, blobs)
        self._ledger = Ledger()
        self._thread = LearnerThread()
        self._run: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Returns when the service waits for its run to be started."""
        run = self._config.run.id
        await self._bus.consume("trainer-groups", [GroupCompleted, GroupDiscarded], self._desk.deliver, run_id=run)
        await self._bus.consume("trainer-sessions", [SessionSealed], self._on_sealed, run_id=run)
        await self._bus.consume("trainer", [RunStart], self._on_start, run_id=run, concurrency=1)

    async def stop(self) -> None:
        """Ends the run, if one goes on, and reports that it was stopped."""
        self._thread.close()
        if self._run is not None:
            self._run.cancel()
            await asyncio.wait([self._run])

    async def _on_start(self, message: Message) -> None:
        """Returns when the run has ended and that is reported, so that no trainer's death goes unnoticed."""
        if message.run_id != self._config.run.id:
            raise Rejected(f"this trainer is configured for run {self._config.run.id}, not {message.run_id}")
        if self._run is None:
            files = RunFiles(Path(self._config.run.root) / self._config.run.id)
            if earlier := files.read_summary():
                await self._report_earlier(earlier)
                return
            self._run = asyncio.create_task(Run(self._tools(files)).execute())
        await asyncio.shield(self._run)

    async def _report_earlier(self, summary: Summary) -> None:
        """A run that was begun before has ended, or died with its trainer and the optimizer's state: it is not begun again."""
        log.warning("run %s was begun before; start a new one", summary.run_id)
        builtins = msgspec.to_builtins(summary)
        await self._bus.publish(RunFinished(run_id=summary.run_id, ok=summary.ok, error=summary.error, summary=builtins))

    async def _on_sealed(self, message: Message) -> None:
        if isinstance(message, SessionSealed) and message.purpose == "train":
            self._ledger.seal(message)

    def _tools(self, files: RunFiles) -> Tools:
        config = self._config
        summary = Summary(
            run_id=config.run.id,
            seed=config.run.seed,
            model=config.engine.model,
            harness=config.trainer.harness,
            reward=config.orchestrator.reward,
            mode=config.proxy.mode,
            eval_episodes=config.trainer.eval_episodes,
        )
        return Tools(
            config=config,
            bus=self._bus,
            sessions=self._sessions,
            engine=Fleet(config.engine.addresses, config.engine.served_name),
            desk=self._desk,
            ledger=self._ledger,
            files=files,
            summary=summary,
            factory=self._factory,
            thread=self._thread,
        )

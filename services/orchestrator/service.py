"""Rollouts from command to outcome: accepts them, has their attempts made, and goes on with them after a restart."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from pathlib import Path

from services.orchestrator.asking import Asking
from services.orchestrator.attempts import Attempts
from services.orchestrator.dispatch import Dispatcher
from services.orchestrator.gateway import Sessions
from services.orchestrator.jobs import Job
from services.orchestrator.limits import Limits
from services.orchestrator.reconcile import Reconciler
from services.orchestrator.records import Records, rollouts_folder
from services.orchestrator.site import Site
from services.orchestrator.state import Rollout, disowned
from services.orchestrator.watching import Watcher
from shared.bus import Bus
from shared.config import Config
from shared.errors import Cancelled, InvalidId, Rejected, TaskError
from shared.events import Message, RolloutCancel, RolloutStart, TrajectoryDiscarded
from shared.store.shares import Shares
from shared.task import load_task
from shared.tasks import end
from shared.watch.meters import Meters
from shared.watch.watch import Watch

log = logging.getLogger(__name__)

DURABLE = "orchestrator"
STOP_S = 10.0
"""How long stopping waits for cancelled rollouts to be reported."""
_LAST_S = 4.0
"""How long it waits for sandboxes that nobody wants to be cleared away."""


class OrchestratorService:
    """Runs rollouts in sandboxes.

    Args:
        config: resolved configuration.
        bus: brings commands, takes events.
        site: where the sandboxes are made.
        sessions: opens and seals those of attempts.
        orphaned: whether whoever keeps this process is gone, so that no other orchestrator may ever follow.
        shares: of the pool that the run shares with others; closed with this.
        watch: tells how many rollouts wait and run.
    """

    def __init__(
        self, config: Config, bus: Bus, site: Site, sessions: Sessions, orphaned: Callable[[], bool] = lambda: False,
        shares: Shares | None = None, watch: Watch | None = None,
    ) -> None:  # fmt: skip
        self._config = config
        self._orphaned = orphaned
        self._bus = bus
        self._backend = site.backend
        self._sessions = sessions
        self._records = Records(rollouts_folder(config))
        self._watcher = Watcher(site.backend)
        self._limits = Limits(config.orchestrator)
        asking = Asking(config, self._records, sessions, site.backend, site.place, self._limits)
        self._attempts = Attempts(config, bus, self._records, sessions, site.backend, self._watcher, asking, self._limits)
        self._dispatcher = Dispatcher(config.orchestrator, self._attempts, config.run.id, shares)
        if watch:
            watch.sources.append(partial(_look, self._dispatcher, watch.meters))
        jobs, keep = self._dispatcher.jobs, config.orchestrator.keep
        self._reconciler = Reconciler(site.backend, self._watcher, self._records, jobs, keep)
        self._reconciling: asyncio.Task[None] | None = None
        self._names: dict[str, str] = {}
        self._stopping = False

    async def start(self) -> None:
        """Takes over rollouts that an earlier orchestrator left, then takes commands.

        Raises:
            SandboxError: the configured kind of sandbox cannot be had here.
        """
        try:
            await self._backend.open()
        except BaseException:
            await self._backend.close()  # nobody stops what never started
            raise
        log.info("sandboxes are of the kind %s", self._backend.kind)
        if self._config.orchestrator.timeout == "auto":
            for asked, outcome in self._records.ended():
                self._limits.learn(asked.family, outcome)
        for found in self._records.load(self._config.orchestrator.attempts):
            if not found.rollout.over:
                self._dispatcher.add(Job(found.rollout, asked=found.asked, made=found.asked is not None))
        self._watcher.start()
        self._dispatcher.start()
        self._reconciling = asyncio.create_task(self._reconciler.forever())
        types = (RolloutStart, RolloutCancel, TrajectoryDiscarded)
        await self._bus.consume(DURABLE, types, self._handle, run_id=self._config.run.id)

    async def stop(self) -> None:
        """Cancels all rollouts; those whose end cannot be reported in time are reported after the next start. If there may be
        none, their sandboxes are cleared away: they would stay for ever."""
        if self._stopping or self._reconciling is None:
            return
        self._stopping = True
        await end(self._reconciling)
        await self._dispatcher.stop(STOP_S)
        await self._reconciler.last(_LAST_S)
        await self._watcher.stop()
        if self._orphaned():
            await self._reconciler.clear()
        await self._sessions.close()
        await self._backend.close()

    async def _handle(self, message: Message) -> None:
        if self._stopping:
            raise Cancelled("the orchestrator is stopping; another delivery will find the next one")
        match message:
            case RolloutStart():
                self._accept(message)
            case RolloutCancel():
                self._cancel(message)
            case TrajectoryDiscarded():
                await self._disown(message)

    def _accept(self, start: RolloutStart) -> None:
        try:
            if start.rollout_id in self._dispatcher.jobs or self._records.known(start.rollout_id):
                return
            rollout = Rollout(start, self._task_name(start.task_dir), self._config.orchestrator.attempts)
            self._records.accept(rollout)
        except InvalidId as e:
            raise Rejected(str(e)) from e
        self._dispatcher.add(Job(rollout))

    def _cancel(self, cancel: RolloutCancel) -> None:
        job = self._dispatcher.jobs.get(cancel.rollout_id)
        if job:
            self._dispatcher.cancel(job)
        elif not self._records.known(cancel.rollout_id):
            log.warning("asked to cancel the rollout %s, which is not known here", cancel.rollout_id)

    async def _disown(self, refusal: TrajectoryDiscarded) -> None:
        job = self._dispatcher.jobs.get(refusal.rollout_id)  # one whose end is just being told
        if job is None:
            found = self._records.find(refusal.rollout_id, self._config.orchestrator.attempts)
            if found is None:
                return
            job = Job(found.rollout)
        change = disowned(job.rollout, refusal)
        if change is not None:
            await self._attempts.disown(job, *change)
            if not job.rollout.over and job.id not in self._dispatcher.jobs:
                self._dispatcher.add(job)

    def _task_name(self, folder: str) -> str:
        """Name of a task; read once, as thousands of rollouts may be asked for at once."""
        if folder not in self._names:
            try:
                self._names[folder] = load_task(Path(folder)).name
            except TaskError:  # it is reported as the outcome of the first attempt
                return Path(folder).name
        return self._names[folder]


async def _look(dispatcher: Dispatcher, meters: Meters) -> None:
    meters.set("rollouts", dispatcher.waiting, "waiting")
    meters.set("rollouts", dispatcher.running, "running")

"""Rollouts from command to outcome: accepts them, has their attempts driven, and goes on with them after a restart."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

from services.orchestrator.attempts import Attempts, Job
from services.orchestrator.backends.local import LocalBackend
from services.orchestrator.gateway import Gateway, Sessions
from services.orchestrator.isolation import resolve_isolation
from services.orchestrator.records import Records
from services.orchestrator.sandboxes import Sandboxes
from services.orchestrator.state import Rollout, disowned
from shared.bus import Bus
from shared.config import Config
from shared.errors import Cancelled, InvalidId, Rejected, TaskError
from shared.events import Message, RolloutCancel, RolloutStart, TrajectoryDiscarded
from shared.task import load_task

log = logging.getLogger(__name__)

DURABLE = "orchestrator"
STOP_S = 10.0
"""How long stopping waits for cancelled rollouts to be reported."""


class OrchestratorService:
    """Runs rollouts in sandboxes.

    Args:
        config: resolved configuration.
        bus: brings commands, takes events.
        control_key: of the proxy's control routes.
        sessions: opens and seals them; the proxy's control routes by default.
    """

    def __init__(self, config: Config, bus: Bus, *, control_key: str, sessions: Sessions | None = None) -> None:
        self._config = config
        self._bus = bus
        self._records = Records(Path(config.run.root).resolve() / config.run.id)
        self._gateway = sessions or Gateway(config.proxy, control_key)
        self._sandboxes: Sandboxes | None = None
        self._jobs: dict[str, Job] = {}
        self._stopping = False

    async def start(self) -> None:
        """Takes over rollouts that an earlier orchestrator left, then takes commands.

        Raises:
            SandboxError: the configured kind of sandbox cannot be had here.
        """
        settings = self._config.orchestrator
        isolation = await asyncio.to_thread(resolve_isolation, settings)
        self._sandboxes = sandboxes = Sandboxes(self._config, isolation)
        self._backend = backend = LocalBackend(self._records.root)
        self._attempts = Attempts(self._config, self._bus, self._records, self._gateway, backend, sandboxes)
        log.info("sandboxes are of the kind %s, in %s", isolation.kind, sandboxes.root)
        for found in self._records.load(settings.attempts):
            self._drive(Job(found.rollout, running=found.running))
        types = (RolloutStart, RolloutCancel, TrajectoryDiscarded)
        await self._bus.consume(DURABLE, types, self._handle, run_id=self._config.run.id)

    async def stop(self) -> None:
        """Cancels all rollouts; those whose end cannot be reported in time are reported after the next start."""
        if self._stopping or self._sandboxes is None:
            return
        self._stopping = True
        tasks = [job.task for job in self._jobs.values() if job.task and not job.task.done()]
        for job in self._jobs.values():
            self._cancel(job)
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=STOP_S)
            for task in late:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        await self._gateway.close()
        self._backend.close()
        self._sandboxes.close()

    async def _handle(self, message: Message) -> None:
        if self._stopping:
            raise Cancelled("the orchestrator is stopping; another delivery will find the next one")
        match message:
            case RolloutStart():
                self._accept(message)
            case RolloutCancel():
                self._cancel_rollout(message)
            case TrajectoryDiscarded():
                await self._disown(message)

    def _accept(self, start: RolloutStart) -> None:
        if start.rollout_id in self._jobs:
            return
        rollout = Rollout(start, _task_name(start), self._config.orchestrator.attempts)
        try:
            self._records.accept(rollout)
        except InvalidId as e:
            raise Rejected(str(e)) from e
        self._drive(Job(rollout))

    def _cancel_rollout(self, cancel: RolloutCancel) -> None:
        job = self._jobs.get(cancel.rollout_id)
        if job is None:
            log.warning("asked to cancel the rollout %s, which is not known here", cancel.rollout_id)
        else:
            self._cancel(job)

    def _cancel(self, job: Job) -> None:
        if not job.rollout.over:
            self._attempts.cancel(job)

    async def _disown(self, refusal: TrajectoryDiscarded) -> None:
        job = self._jobs.get(refusal.rollout_id)
        change = disowned(job.rollout, refusal) if job else None
        if job is None or change is None:
            return
        before, (job.rollout, outcome) = job.rollout, change
        if outcome.final:
            await self._attempts.say(outcome)
            self._records.report(before, outcome)
        else:
            self._records.accept(job.rollout)
            self._drive(job)

    def _drive(self, job: Job) -> None:
        self._jobs[job.rollout.start.rollout_id] = job
        if not job.rollout.over and (job.task is None or job.task.done()):
            job.task = asyncio.create_task(self._attempts.drive(job))


def _task_name(start: RolloutStart) -> str:
    try:
        return load_task(Path(start.task_dir)).name
    except TaskError:  # it is reported as the outcome of the first attempt
        return Path(start.task_dir).name

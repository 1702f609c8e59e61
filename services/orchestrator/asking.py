"""Asks for the sandbox of an attempt: its session, its spec, its box; and keeps what the sandbox printed."""

from __future__ import annotations

import asyncio
import logging
import os
from pathlib import Path

from tenacity import AsyncRetrying, before_sleep_log, retry_if_exception_type, stop_after_delay, wait_exponential

from services.orchestrator.backends.port import Backend, Box
from services.orchestrator.gateway import Sessions
from services.orchestrator.harnesses import harness
from services.orchestrator.jobs import Job
from services.orchestrator.limits import Limits, family_of
from services.orchestrator.plan import Attempt, packages_of, plan, resources_of
from services.orchestrator.records import Asked, Records
from services.orchestrator.site import Place
from services.orchestrator.spec import longest, phase_of
from shared.config import Config
from shared.errors import QuotaError, SandboxAway, SandboxError, TaskError
from shared.task import Task, load_task

log = logging.getLogger(__name__)

MARGIN_S = 60.0
"""On top of the limits of agent and verifier: for their preparation, and to end what they started."""
_PRINTED = "sandbox.log"
_LOGS_S = 20.0
"""How long it may take to get hold of that; the node of a sandbox that was lost does not answer."""


def while_away(patience_s: float) -> AsyncRetrying:
    """Tries again for so long as a backend is away, or has no room."""
    return AsyncRetrying(
        wait=wait_exponential(0.1, max=5.0), retry=retry_if_exception_type((SandboxAway, QuotaError)),
        stop=stop_after_delay(patience_s), before_sleep=before_sleep_log(log, logging.INFO), reraise=True,
    )  # fmt: skip


class Asking:
    """Asks one backend.

    Args:
        config: resolved configuration.
        records: keep what is asked for.
        sessions: opens those of attempts.
        backend: has the sandboxes.
        place: how programs see them.
        limits: of agents.
    """

    def __init__(
        self, config: Config, records: Records, sessions: Sessions, backend: Backend, place: Place, limits: Limits
    ) -> None:
        self._config = config
        self._records = records
        self._sessions = sessions
        self._backend = backend
        self._place = place
        self._limits = limits

    async def prepare(self, job: Job) -> Attempt:
        """Reads the task and opens the session.

        Raises:
            TaskError, HarnessError: the task or the harness cannot be used.
            EngineError, FidelityError, ConfigError: the session cannot be opened.
        """
        start, folder = job.rollout.start, Path(job.rollout.start.task_dir)
        if not folder.is_absolute():
            raise TaskError(f"task_dir {start.task_dir!r} must be an absolute path")
        task, adapter = load_task(folder), harness(start.harness, self._config.orchestrator.harness_dir)
        isolation, sandbox = self._place(job.session)
        return Attempt(
            start=start, task=task, harness=adapter, isolation=isolation, sandbox=sandbox,
            record=self._records.folder(job.rollout).resolve(),
            endpoint=await self._sessions.open(job.rollout, adapter.roles()), host_env=os.environ,
            limit_s=self._limits.limit_s(start.harness, _family(task)),
        )  # fmt: skip

    async def ask(self, job: Job, attempt: Attempt) -> None:
        """Asks for the sandbox; waits for `stages.schedule_s` while the backend is away or full.

        Raises:
            TaskError, HarnessError: it cannot be planned.
            SandboxError: it cannot be had.
        """
        box = self._box(job, attempt)
        limit_s = phase_of(box.spec, "agent")["timeout_s"]
        asked = Asked(family=_family(attempt.task), limit_s=limit_s, deadline_s=box.deadline_s)
        self._records.ask(job.rollout, asked)
        job.asked = asked
        await while_away(self._config.orchestrator.stages.schedule_s)(self._backend.start, box)
        job.made = True

    async def keep_logs(self, job: Job) -> None:
        """Keeps what a sandbox printed that has no folder of ours to print to."""
        folder = self._records.folder(job.rollout)
        if (folder / "agent.log").exists():
            return
        try:
            async with asyncio.timeout(_LOGS_S):
                if printed := await self._backend.logs(job.session):
                    (folder / _PRINTED).write_bytes(printed)
        except (SandboxError, OSError) as e:  # TimeoutError among them
            log.warning("what the sandbox of %s printed could not be kept: %s", job.session, str(e) or type(e).__name__)

    def _box(self, job: Job, attempt: Attempt) -> Box:
        start, task, spec = job.rollout.start, attempt.task, plan(attempt, self._config)
        labels = {"run": start.run_id, "rollout": start.rollout_id, "group": start.group_id, "task": job.rollout.task}
        return Box(
            job.session, labels | {"harness": start.harness}, spec, attempt.record,
            image=task.environment.docker_image or "", dockerfile=task.dockerfile, harness=start.harness,
            build_timeout_s=task.environment.build_timeout_sec,
            packages=packages_of(task, spec),
            resources=resources_of(task, self._config), user=task.user,
            network="public" if task.network == "public" else "none",
            deadline_s=longest(spec) + MARGIN_S,
        )  # fmt: skip


def _family(task: Task) -> str:
    return family_of(task.name, task.metadata)

"""Asks for the sandbox of an attempt: its session, its spec, its box; and keeps what the sandbox printed."""

from __future__ import annotations

import asyncio
import logging
import os
from pathlib import Path
from typing import Any

from tenacity import AsyncRetrying, before_sleep_log, retry_if_exception_type, stop_after_delay, wait_exponential

from services.orchestrator.apart import plan_apart
from services.orchestrator.backends.port import Backend, Box
from services.orchestrator.gateway import NOWHERE, Sessions
from services.orchestrator.handover import HANDOVER, handed, take
from services.orchestrator.harnesses import harness
from services.orchestrator.jobs import Job, verifier_of
from services.orchestrator.limits import Limits
from services.orchestrator.plan import Attempt, packages_of, plan, resources_of, solves
from services.orchestrator.records import Asked, Records
from services.orchestrator.sandbox import Sandbox
from services.orchestrator.site import Place
from services.orchestrator.spec import Spec, longest, phase_of
from shared.config import Config
from shared.errors import QuotaError, SandboxAway, SandboxError, TaskError
from shared.task import Task, apart, family_of, load_task

log = logging.getLogger(__name__)

MARGIN_S = 60.0
"""On top of the limits of agent and verifier: for their preparation, and to end what they started."""
_PRINTED, _VERIFIER_PRINTED = "sandbox.log", "sandbox-verify.log"
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
            limit_s=self._limits.limit_s(start.harness, _family(task)), clock=start.clock or self._config.orchestrator.clock,
        )  # fmt: skip

    async def ask(self, job: Job, attempt: Attempt) -> None:
        """Asks for the sandbox; waits for `stages.schedule_s` while the backend is away or full. That it was asked for is noted
        once the backend took it: a successor of one that was killed before asks again, which changes nothing where it is there.

        Raises:
            TaskError, HarnessError: it cannot be planned.
            SandboxError: it cannot be had.
        """
        task, spec = attempt.task, plan(attempt, self._config)
        box = self._box(
            job, attempt, spec, packages=packages_of(task, spec), image=task.environment.docker_image or "",
            dockerfile=task.dockerfile, user=task.user, network="public" if task.network == "public" else "none",
            build_timeout_s=task.environment.build_timeout_sec, resources=resources_of(task.environment, self._config),
        )  # fmt: skip
        agent = phase_of(spec, "agent")
        asked = Asked(
            family=_family(task), limit_s=agent["timeout_s"], deadline_s=box.deadline_s,
            apart=task.verifier.separate, keeps=task.keeps, model=not solves(agent),
        )  # fmt: skip
        job.asked = asked
        await while_away(self._config.orchestrator.stages.schedule_s)(self._backend.start, box)
        job.made = True
        self._records.ask(job.rollout, asked)

    async def ask_verifier(self, job: Job) -> float:
        """Asks for the sandbox of a verifier that does not share the agent's, and hands it what the agent left. Gives the
        seconds after which all in it has ended.

        Raises:
            TaskError: it cannot be planned.
            SandboxError: it cannot be had.
        """
        record = self._records.folder(job.rollout).resolve()
        attempt = await self._leave(job, record)
        where = apart(attempt.task)
        assert where is not None, "the attempt was planned so"
        spec, packages = plan_apart(attempt, where, handed(where.artifacts, record / HANDOVER), self._config)
        box = self._box(
            job, attempt, spec, packages=packages, image=where.image, dockerfile=where.dockerfile,
            user=str(user) if (user := attempt.task.verifier.user) is not None else "",
            network="public" if where.network_mode == "public" else "none",
            build_timeout_s=where.environment.build_timeout_sec, resources=resources_of(where.environment, self._config),
        )  # fmt: skip
        job.verifier, job.made = attempt.record.name, False
        await while_away(self._config.orchestrator.stages.schedule_s)(self._backend.start, box)
        job.made = True
        return box.deadline_s

    async def _leave(self, job: Job, record: Path) -> Attempt:
        """Takes what the agent left out of its sandbox; gives what the verifier's part of the attempt is made of."""
        start, name = job.rollout.start, verifier_of(job.session)
        task, own = load_task(Path(start.task_dir)), record.with_name(name)
        isolation, folder = self._place(job.session)
        agent, where = Sandbox(isolation, folder, task.workdir), apart(task)
        if where is None:
            raise TaskError(f"{start.task_dir} changed while it was worked on: its verifier shared no environment before")
        patience = while_away(self._config.orchestrator.stages.schedule_s)
        try:
            await patience(take, self._backend, job.session, agent, where.artifacts, record / HANDOVER)
            own.mkdir(exist_ok=True)
        except OSError as e:
            raise SandboxError(f"what the agent of {job.session} left could not be kept: {e}") from e
        return Attempt(
            start=start, task=task, harness=harness(start.harness, self._config.orchestrator.harness_dir), isolation=isolation,
            sandbox=self._place(name)[1], record=own, endpoint=NOWHERE, host_env=os.environ, limit_s=0.0,
        )  # fmt: skip

    async def keep_logs(self, job: Job) -> None:
        """Keeps what a sandbox printed that has no folder of ours to print to."""
        folder = self._records.folder(job.rollout)
        if (folder / "agent.log").exists():
            return
        try:
            async with asyncio.timeout(_LOGS_S):
                if printed := await self._backend.logs(job.sandbox):
                    (folder / (_VERIFIER_PRINTED if job.verifier else _PRINTED)).write_bytes(printed)
        except (SandboxError, OSError) as e:  # TimeoutError among them
            log.warning("what the sandbox %s printed could not be kept: %s", job.sandbox, str(e) or type(e).__name__)

    def _box(self, job: Job, attempt: Attempt, spec: Spec, **fields: Any) -> Box:
        start = job.rollout.start
        labels = {"run": start.run_id, "rollout": start.rollout_id, "group": start.group_id, "task": job.rollout.task}
        return Box(
            attempt.record.name, labels | {"harness": start.harness}, spec, attempt.record, harness=start.harness,
            deadline_s=longest(spec) + MARGIN_S, **fields,
        )  # fmt: skip


def _family(task: Task) -> str:
    return family_of(task.name, task.metadata)

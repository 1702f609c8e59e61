"""Attempts of rollouts: each gets a recording session and a sandbox, and ends as one outcome on the bus."""

from __future__ import annotations

import asyncio
import logging
import shutil
import time
from typing import TypeVar

from tenacity import AsyncRetrying, before_sleep_log, retry_if_exception_type, wait_exponential

from services.orchestrator.accounts import Account, account
from services.orchestrator.asking import Asking, while_away
from services.orchestrator.backends.port import Backend
from services.orchestrator.gateway import Sessions
from services.orchestrator.handover import HANDOVER
from services.orchestrator.jobs import Job, session_of, verifier_of
from services.orchestrator.keeping import kept
from services.orchestrator.limits import Limits
from services.orchestrator.records import Records
from services.orchestrator.spec import Status, joined
from services.orchestrator.stages import Course, limits_of
from services.orchestrator.state import Outcome, Rollout, Verdict, failed, judge, judge_gone, judged, scheduled, started, tossed
from services.orchestrator.watching import Watcher
from shared.bus import Bus
from shared.config import Config
from shared.errors import AgentTimeout, BusUnavailable, Cancelled, ForgeError, SandboxError, VerifierError
from shared.events import Message, RolloutFailed
from shared.log import log_context

log = logging.getLogger(__name__)

T = TypeVar("T")
GRACE_S = 5.0
"""How long a sandbox whose end was asked for may take before it is killed; its runner kills the agent before that."""


class Attempts:
    """Makes attempts.

    Args:
        config: resolved configuration.
        bus: takes events.
        records: keep what is known.
        sessions: opens and seals those of attempts.
        backend: has the sandboxes.
        watcher: tells of them.
        asking: asks for them.
        limits: learn from how they end.
    """

    def __init__(
        self, config: Config, bus: Bus, records: Records, sessions: Sessions, backend: Backend, watcher: Watcher,
        asking: Asking, limits: Limits,
    ) -> None:  # fmt: skip
        self._config = config
        self._bus = bus
        self._records = records
        self._sessions = sessions
        self._backend = backend
        self._watcher = watcher
        self._asking = asking
        self._limits = limits
        self._errands: set[asyncio.Task[None]] = set()

    async def announce(self, job: Job) -> None:
        """Says that the current attempt waits for a place."""
        job.announced = True
        await self._say(scheduled(job.rollout))

    async def make(self, job: Job) -> None:
        """Makes the current attempt; afterwards the rollout is over, or stands at its next one."""
        with log_context(rollout=job.id):
            job.queue_s = time.monotonic() - job.waiting_since if job.waiting_since else 0.0
            try:
                if not job.announced:
                    await self.announce(job)
                verdict = await self._run(job)
                assert job.asked is not None, "an attempt with a verdict had a sandbox"
                after, outcome = judged(job.rollout, verdict, job.asked.limit_s, _account(job))
                self._limits.learn(job.asked.family, outcome)
            except ForgeError as e:
                after, outcome = failed(job.rollout, _reason(job, e), _account(job), sealed=job.sealed)
            except Exception as e:  # a defect of ours ends this attempt, not the service
                log.exception("attempt %s ended in a way that was not foreseen", job.session)
                error = SandboxError(f"{type(e).__name__}: {e}")
                after, outcome = failed(job.rollout, error, _account(job), sealed=job.sealed)
            await self._conclude(job, after, outcome)

    async def close(self, job: Job, error: ForgeError) -> None:
        """Ends a rollout that has no attempt under way."""
        await self._conclude(job, *failed(job.rollout, error, _account(job), sealed=False))

    async def disown(self, job: Job, after: Rollout, outcome: RolloutFailed) -> None:
        """The collector refused what an attempt left, after it was reported: it failed after all."""
        before, job.rollout = job.rollout, after
        if not after.over:
            self._records.accept(after)
            return
        await self._say(outcome)
        self._note(before, outcome)

    def cancel(self, job: Job) -> None:
        """Ends the current attempt of a rollout that is marked as cancelled, at once."""
        self._watcher.nudge(job.sandbox)
        if job.asked:
            errand = asyncio.create_task(self._end(job.sandbox))
            self._errands.add(errand)
            errand.add_done_callback(self._errands.discard)

    async def _conclude(self, job: Job, after: Rollout, outcome: Outcome) -> None:
        before, job.rollout = job.rollout, after  # now: an answer may come while the outcome is being said
        asked, job.ended = job.asked, session_of(before)
        job.forget_attempt()
        if not after.over:
            self._records.accept(after)
        await self._say(outcome)
        if self._note(before, outcome) and asked:
            await self._clear_away(job.ended, outcome)
            if asked.apart:
                await self._clear_away(verifier_of(job.ended), outcome)
                if not asked.keeps:
                    await self._drop_handover(before, outcome)
        job.ended = ""

    def _note(self, rollout: Rollout, outcome: Outcome) -> bool:
        try:
            self._records.report(rollout, outcome)
        except OSError as e:
            log.error("the outcome of %s was published, but could not be noted: %s", session_of(rollout), e)
            return False
        return True

    async def _clear_away(self, session: str, outcome: Outcome) -> None:
        """Removes a sandbox, unless it is to be kept. What goes wrong is made good when sandboxes are compared next."""
        self._watcher.forget(session)
        if kept(self._config.orchestrator.keep, outcome):
            return
        try:
            await self._backend.remove(session)
        except SandboxError as e:
            log.warning("the sandbox of %s is still to be cleared away: %s", session, e)

    async def _drop_handover(self, rollout: Rollout, outcome: Outcome) -> None:
        """What was handed to a verifier goes with the sandboxes."""
        if not kept(self._config.orchestrator.keep, outcome):
            await asyncio.to_thread(shutil.rmtree, self._records.folder(rollout) / HANDOVER, ignore_errors=True)

    async def _run(self, job: Job) -> Verdict:
        """Session, sandbox, seal: a session that was opened is sealed whatever becomes of its sandbox."""
        if job.cancelled:
            raise Cancelled("cancelled before it began")
        ended = await self._carry_out(job)
        sealed = await self._sessions.seal(job.rollout)
        job.sealed = True
        if isinstance(ended, AgentTimeout) and not job.cancelled:
            log.info("%s: %s", job.session, ended)
            return judge_gone(type(ended), sealed, job.course.spent.get("run", 0.0) if job.course else 0.0)
        if isinstance(ended, ForgeError):
            raise ended
        verdict = judge(ended, sealed, model=job.asked is None or job.asked.model)
        coin = self._config.orchestrator.reward == "coin" and job.rollout.start.purpose == "train"
        return tossed(verdict, job.id) if coin else verdict

    async def _carry_out(self, job: Job) -> Status | ForgeError:
        """The runner's last status, or why there is none. A sandbox that was asked for already is waited for.

        Raises:
            ForgeError: no session could be opened.
        """
        attempt = None if job.asked else await self._asking.prepare(job)
        try:
            if attempt:
                await self._asking.ask(job, attempt)
            assert job.asked is not None, "it was asked for"
            job.status = await self._follow(job, job.asked.deadline_s)
        except ForgeError as e:
            return await self._with_logs(job, e)
        await self._with_logs(job, None)
        if not job.asked.apart or job.status["phase"] != "done":
            return job.status
        return await self._verify_apart(job, job.status)

    async def _verify_apart(self, job: Job, agent: Status) -> Status | ForgeError:
        """The status of both sandboxes, once the verifier's own has ended too; or why there is none."""
        try:
            if job.cancelled:
                raise Cancelled("cancelled before its verifier began")
            job.status = joined(agent, await self._follow(job, await self._asking.ask_verifier(job)))
        except AgentTimeout as e:  # what a sandbox's end means where its agent runs
            return await self._with_logs(job, VerifierError(f"the verifier took its sandbox down: {e}"))
        except ForgeError as e:
            return await self._with_logs(job, e)
        return await self._with_logs(job, job.status)

    async def _with_logs(self, job: Job, ended: T) -> T:
        """What a sandbox printed is kept however it ended: of one that failed it is all there is to go by."""
        if job.made:
            await self._asking.keep_logs(job)
        return ended

    async def _follow(self, job: Job, run_s: float) -> Status:
        """Waits until the sandbox ended, which it has to `run_s` after it began to run.

        Raises:
            ForgeError: it ended otherwise than by its runner's own will, or a stage took too long.
        """
        limits, now = limits_of(self._config.orchestrator.stages, run_s), time.monotonic()
        job.course = job.course.again(limits, now) if job.course else Course(limits, now)
        with self._watcher.follow(job.sandbox) as news:
            while True:
                job.course = job.course.cancel(time.monotonic()) if job.cancelled else job.course
                try:
                    async with asyncio.timeout(job.course.until - time.monotonic()):
                        seen = await news.get()
                except TimeoutError:
                    raise job.course.overdue() from None
                if seen is None:
                    continue
                job.course = job.course.at(seen.stage, time.monotonic())
                job.image = job.image or seen.image  # the agent's sandbox comes first
                if seen.stage == "run" or seen.status:
                    await self._say_started(job, seen.where)
                if seen.error:
                    raise seen.error
                if seen.status:
                    return seen.status

    async def _say_started(self, job: Job, where: str) -> None:
        if job.rollout.phase != "started":
            job.rollout, message = started(job.rollout, self._backend.kind, where, _account(job))
            await self._say(message)

    async def _end(self, session: str) -> None:
        try:
            await while_away(GRACE_S)(self._backend.end, session, GRACE_S)
        except SandboxError as e:
            log.warning("the sandbox of %s could not be asked to end: %s", session, e)

    async def _say(self, message: Message) -> None:
        """Publishes, however long the bus is away."""
        retrying = AsyncRetrying(
            wait=wait_exponential(0.1, max=5.0), retry=retry_if_exception_type(BusUnavailable),
            before_sleep=before_sleep_log(log, logging.WARNING),
        )  # fmt: skip
        await retrying(self._bus.publish, message)


def _account(job: Job) -> Account:
    return account(job.queue_s, job.course, job.status, job.image)


def _reason(job: Job, error: ForgeError) -> ForgeError:
    return Cancelled("somebody asked for its end") if job.cancelled else error

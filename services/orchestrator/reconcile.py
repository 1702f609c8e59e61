"""Compares, now and then, the sandboxes that there are with those that there should be."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping

from services.orchestrator.backends.port import Backend, Seen
from services.orchestrator.jobs import Job, attempt_of
from services.orchestrator.keeping import Keep, kept
from services.orchestrator.records import Records
from services.orchestrator.watching import Watcher
from shared.errors import SandboxError

log = logging.getLogger(__name__)

EVERY_S = 60.0


class Reconciler:
    """Removes sandboxes that nobody wants any more, and tells of those that vanished. Does nothing when it could not look.

    Args:
        backend: has the sandboxes.
        watcher: tells the attempts.
        records: say which sandboxes are kept.
        jobs: those that are not over, by rollout id.
        keep: which sandboxes are.
    """

    def __init__(self, backend: Backend, watcher: Watcher, records: Records, jobs: Mapping[str, Job], keep: Keep) -> None:
        self._backend = backend
        self._watcher = watcher
        self._records = records
        self._jobs = jobs
        self._keep: Keep = keep

    async def forever(self) -> None:
        """At once, and then every minute."""
        while True:
            try:
                await self.once()
            except Exception:  # a defect of ours must not end this for the rest of the run
                log.exception("sandboxes could not be compared with those that there should be")
            await asyncio.sleep(EVERY_S)

    async def last(self, within_s: float) -> None:
        """One more at the end, if it can be had in time: no other orchestrator may follow for long."""
        try:
            async with asyncio.timeout(within_s):
                await self.once()
        except Exception:  # whoever stops has more to do
            log.exception("sandboxes could not be compared with those that there should be")

    async def once(self) -> None:
        """One comparison."""
        expected = {job.sandbox for job in self._jobs.values() if job.made}
        try:
            present = {seen.name for seen in await self._backend.present()}
        except SandboxError as e:
            log.warning("sandboxes cannot be listed at the moment, so none is cleared away: %s", e)
            return
        running = {job.sandbox for job in self._jobs.values() if job.made}
        wanted = {name for job in self._jobs.values() for name in (job.session, job.ended)}
        self._watcher.forget_all_but(lambda name: attempt_of(name) in wanted)
        for name in expected - present:
            if name in running:
                self._watcher.tell(Seen(name, "ended", error=SandboxError("the sandbox vanished: somebody removed it")))
        for name in present:
            if attempt_of(name) not in wanted:
                await self._clear_away(name)

    async def clear(self) -> None:
        """Removes all sandboxes but those that are kept: nobody will ever ask for them."""
        try:
            present = await self._backend.present()
        except SandboxError as e:
            log.error("sandboxes cannot be listed, so some may be left behind: %s", e)
            return
        await asyncio.gather(*(self._clear_away(seen.name) for seen in present))

    async def _clear_away(self, name: str) -> None:
        outcome = self._records.outcome(attempt_of(name))
        if outcome is not None and kept(self._keep, outcome):
            return
        log.info("the sandbox %s belongs to no rollout that goes on, and is removed", name)
        try:
            await self._backend.remove(name)
        except SandboxError as e:
            log.warning("the sandbox %s is still to be cleared away: %s", name, e)

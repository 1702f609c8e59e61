"""Hands new weights to the engines, one after another, and looks after those that fail or come back."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from services.trainer.ports import Learner
from services.trainer.tools import Tools
from services.trainer.weights.client import Slow
from services.trainer.weights.fleet import Replica
from services.trainer.weights.pushing import Pusher, Target
from services.trainer.weights.transport import transport_of
from shared.errors import BusUnavailable, ConfigError, EngineError, StoreUnavailable
from shared.events import WeightsPublished
from shared.tasks import end

log = logging.getLogger(__name__)

PROBES, PROBE_TOKENS = 4, 32
SILENT_S = 60.0
"""An engine that takes requests and answers none for so long counts as gone. One that starts refuses them for seconds."""


class Publisher:
    """Publishes versions of a learner's weights.

    What engines are to serve is one thing, and what each does serve another: whenever the two differ, the engine is closed,
    gets the newest weights, is probed and opened again. So an engine that was away, or whose push failed, is no special case.

    Args:
        tools: of the run.
        vocab_size: ids that the probe may draw.

    Raises:
        ConfigError: calls are to be held, in a run that does not train replies of two versions.
    """

    def __init__(self, tools: Tools, vocab_size: int) -> None:
        trainer = tools.config.trainer
        if trainer.push.calls == "hold" and not trainer.pace.max_staleness:
            raise ConfigError(
                'trainer.push.calls = "hold" lets a reply be of two weight versions, which trainer.pace.max_staleness = 0 '
                'drops: set it to 1 or more, or trainer.push.calls = "drain"'
            )
        self._config = tools.config
        self._bus = tools.bus
        self._thread = tools.thread
        self._fleet = tools.engine
        self._replicas = tools.sessions.replicas
        self._transport = transport_of(tools)
        self._pusher = Pusher(tools.config, tools.bus, tools.sessions.replicas, self._transport)
        self._probes = probe_sequences(vocab_size, tools.config.engine.max_model_len)
        self._target: Target | None = None
        self._turn = asyncio.Lock()
        self._suspect = ""
        self._served_last = time.monotonic()

    async def shut_unproven(self, version: int) -> None:
        """Lets no call begin at engines that do not say that they serve what calls would be stamped with. In a run that goes on
        after its whole stack was killed they are new, and rollouts of before would sample from weights that nobody learned.

        Args:
            version: that the run has come to.

        Raises:
            StoreUnavailable: it could not be told.
        """
        table = await self._replicas.look()
        for replica in self._fleet.replicas:
            state = table.get(replica.address)
            stamp = state.version if state else version
            if (state is None or state.open) and not await self._proves(replica, stamp):
                await self._pusher.shut(replica, stamp)

    async def publish(self, learner: Learner, version: int) -> None:
        """Returns when every engine that could be brought to a version serves it and takes calls, stamped with it.

        Raises:
            EngineError: none could within `engine.start_timeout_s`; the message says why. All that failed take no calls, since
                it is not known what they would sample from; those whose calls did not end go on under the weights they have.
            ConfigError: the disk is full.
        """
        async with self._turn:
            where = await self._transport.take(learner, version)
            log_probs = await self._thread.run(learner.log_probs, self._probes)
            await self._bus.publish(WeightsPublished(run_id=self._config.run.id, version=version, path=where))
            answering = await self._look()
            self._target, self._served_last = Target(version, self._probes, log_probs), time.monotonic()
            for replica in self._fleet.replicas:
                if replica.number in answering:
                    await self._pusher.bring(replica, self._target)
            await self._reopen_untouched()
        until = time.monotonic() + self._config.engine.start_timeout_s
        while not self._serving(version):
            self._give_up_if(time.monotonic() >= until)
            await asyncio.sleep(self._config.trainer.push.watch_s)
            await self._look_after()

    async def check_served(self, version: int) -> None:
        """Makes certain that what was sampled so far was sampled from the weights that it is stamped with.

        Raises:
            EngineError: an engine took calls after it was restarted, and before that was noticed.
        """
        await self._look()
        if self._suspect:
            raise EngineError(self._suspect)

    @asynccontextmanager
    async def watching(self) -> AsyncIterator[None]:
        """Looks after the engines while the context lasts.

        Raises:
            EngineError: for `engine.start_timeout_s` no engine took calls; what runs in the context is cancelled.
        """
        task = asyncio.current_task()
        assert task is not None, "it is entered in a task"
        watch = asyncio.create_task(self._watch())
        watch.add_done_callback(lambda done: None if done.cancelled() else task.cancel())
        try:
            yield
        except asyncio.CancelledError:
            if watch.done() and not watch.cancelled() and (error := watch.exception()) and not task.uncancel():
                raise error from None
            raise
        finally:
            await end(watch)
            with suppress(StoreUnavailable):  # it may have been waiting for the calls of an engine that it had closed
                await self._reopen_untouched()

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(self._config.trainer.push.watch_s)
            try:
                await self._look_after()
            except (StoreUnavailable, BusUnavailable) as e:
                log.warning("the engines are looked after later: %s", e)
                continue
            if self._target is not None and not self._turn.locked():
                self._give_up_if(time.monotonic() - self._served_last >= self._config.engine.start_timeout_s)

    async def _look_after(self) -> None:
        """Sees what each engine serves, and brings one after another to the newest weights."""
        answering = await self._look()
        if self._target is None or self._turn.locked():
            return
        async with self._turn:
            for replica in self._fleet.replicas:
                if replica.number in answering and self._is_behind(replica):
                    await self._pusher.bring(replica, self._target)
            await self._reopen_untouched()

    async def _look(self) -> set[int]:
        """Closes engines that do not answer, and those that were restarted. Returns the numbers of those that answer."""
        idle = [r for r in self._fleet.replicas if not r.busy]
        answers = await asyncio.gather(*(self._see(r) for r in idle))
        if any(r.open for r in self._fleet.replicas) or any(r.busy for r in self._fleet.replicas):
            self._served_last = time.monotonic()
        return {r.number for r, answers_ in zip(idle, answers, strict=True) if answers_}

    async def _proves(self, replica: Replica, version: int) -> bool:
        try:
            return await replica.engine.version() == str(version)
        except Slow:  # it lives, and one that was just started refuses
            return True
        except EngineError:
            return False

    async def _see(self, replica: Replica) -> bool:
        known = replica.serves
        try:
            version = await replica.engine.version()
        except EngineError as e:
            if isinstance(e, Slow) and time.monotonic() - replica.heard < SILENT_S:
                return True
            if self._target is not None and not replica.busy:
                replica.prepared = False  # it may be restarted before it answers again
                await self._pusher.fail(replica, self._target.version, str(e))
            return False
        replica.heard = time.monotonic()
        if self._target is None or known is None or replica.busy or replica.serves != known:
            return True
        if version != str(known):
            await self._note_restart(replica, version, self._target.version)
        elif known == self._target.version and not replica.busy:
            await self._confirm(replica, known)
        return True

    async def _confirm(self, replica: Replica, version: int) -> None:
        """Opens an engine that was away for a moment, or that the store forgot."""
        if not replica.open or await self._replicas.unknown([replica.address]):
            await self._pusher.open(replica, version)
            replica.error = ""

    async def _note_restart(self, replica: Replica, version: str, wanted: int) -> None:
        words = f"the engine at {replica.address} serves weights {version!r}, not version {replica.serves}: it was restarted"
        if replica.open:
            self._suspect = f"{words}, and took calls before that was noticed; see its log"
        replica.forget()
        await self._pusher.fail(replica, wanted, words)

    def _is_behind(self, replica: Replica) -> bool:
        assert self._target is not None, "something was published"
        version = self._target.version
        return self._transport.keeps and replica.serves != version and replica.refused != version

    async def _reopen_untouched(self) -> None:
        """Where no engine serves the newest weights, calls go on at those whose calls did not end in time."""
        if self._target is not None and not self._serving(self._target.version):
            for replica in self._fleet.replicas:
                if replica.untouched is not None and not replica.open:
                    await self._pusher.open(replica, replica.untouched)

    def _serving(self, version: int) -> bool:
        return any(r.open and r.serves == version for r in self._fleet.replicas)

    def _give_up_if(self, late: bool) -> None:
        """Raises EngineError when it is late, or when no engine serves what it is sent."""
        replicas = self._fleet.replicas
        hopeless = self._target is not None and all(r.refused == self._target.version for r in replicas)
        if late or hopeless:
            raise EngineError("; ".join(r.error for r in replicas if r.error) or "no engine takes calls")


def probe_sequences(vocab_size: int, longest: int) -> list[list[int]]:
    """The token sequences of the probe: random ids, the same ones each time."""
    rng = random.Random(0)
    return [[rng.randrange(vocab_size) for _ in range(min(PROBE_TOKENS, longest - 1))] for _ in range(PROBES)]

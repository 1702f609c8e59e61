"""Task synthesis: a candidate's stages as messages.

Where each candidate stands is on disk; a message says that something is to be done with it, and is acknowledged once that is
done and noted. One process of a run does this, for its state is in the run folder.
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Sequence

from services.synth.books import Books
from services.synth.candidate import Candidate, held, message_of
from services.synth.gates import gates_of
from services.synth.makers import Workers, workers_of
from services.synth.pool import TaskPool
from services.synth.ports import Gate, Maker
from services.synth.steps import Steps
from services.synth.trials import BusTrials
from shared.bus import Bus
from shared.config import Config
from shared.errors import ForgeError, Rejected
from shared.events import Message, SynthStart, TaskBuilt, TaskProposed, TaskRefined, TaskTried
from shared.events.tasks import TaskMessage

STAGES = (SynthStart, TaskProposed, TaskBuilt, TaskRefined, TaskTried)


class SynthService:
    """Makes tasks when it is asked to.

    Args:
        config: resolved configuration.
        bus: brings commands and outcomes, takes events.
        maker: makes the tasks; by default the configured one.
        gates: what they must pass; by default the configured ones.
    """

    def __init__(self, config: Config, bus: Bus, maker: Maker | None = None, gates: Sequence[Gate] | None = None) -> None:
        self._config, self._bus, self._maker, self._gates = config, bus, maker, gates
        self._books = Books(config)
        self._trials = BusTrials(config, bus, self._books)
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._workers: Workers | None = None
        self._made: Steps | None = None

    async def start(self) -> None:
        """Returns when the subscriptions stand."""
        await self._trials.start()
        run, parallel = self._config.run.id, self._config.synth.parallel
        await self._bus.consume("synth", STAGES, self._handle, run_id=run, concurrency=parallel)

    async def stop(self) -> None:
        """Nothing is kept between messages: what is under way is taken up by the next one."""
        if self._workers:
            await self._workers.close()

    async def _handle(self, message: Message) -> None:
        if not isinstance(message, STAGES):
            raise Rejected(f"synth does not handle {type(message).__name__}")
        async with self._locks[message.task_id]:
            await self._go_on(message)

    async def _go_on(self, message: TaskMessage) -> None:
        task = self._books.load(message.task_id)
        if task is None and isinstance(message, SynthStart):
            task = Candidate(task_id=message.task_id, number=message.number, stage="asked", began=time.time())
        if task is None:
            raise Rejected(f"{message.task_id} was never asked for in this run folder")
        if (isinstance(message, SynthStart) or _is_of(message, task)) and not task.over:
            task = await self._step(task)
        if task.stage != "asked" and not task.held:
            await self._bus.publish(message_of(task, self._config.run.id))

    async def _step(self, task: Candidate) -> Candidate:
        try:
            steps = self._steps()
        except ForgeError as e:  # no task can be made as it is configured
            self._books.save(task := held(task, str(e), shared=True))
            return task
        return await steps.step(task)

    def _steps(self) -> Steps:
        """Made with the first task: a stack that never makes one needs no tasks, families or models."""
        if self._made is None:
            config = self._config
            workers = Workers(self._maker) if self._maker else workers_of(config, self._trials)
            gates = gates_of(config) if self._gates is None else self._gates
            pool = TaskPool(config, self._books.accepted)
            self._made = Steps(config.run.id, config.synth.rounds, self._books, workers, gates, self._trials, pool)
            self._workers = workers
        return self._made


def _is_of(message: TaskMessage, task: Candidate) -> bool:
    """Whether a message tells of where a candidate stands now; if not, it is an old one that came again."""
    current = message_of(task, message.run_id)
    return not task.held and type(message) is type(current) and message.round == current.round

"""Going on where an earlier trainer stopped, or was killed: its newest checkpoint, and what the journal has beyond it."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec

from services.trainer.batch.advantage import credit
from services.trainer.batch.samples import read_vote
from services.trainer.books.files import RunFiles
from services.trainer.journal.checkpoints import Checkpoint, Kept
from services.trainer.journal.history import History, Taught, fold, needed_beside
from services.trainer.journal.journal import Journal
from services.trainer.journal.records import Opened
from services.trainer.journal.state import RunState
from services.trainer.ports import Learner, Update
from services.trainer.tools import Tools
from shared.config import Config, Resolved
from shared.errors import ConfigError, ForgeError

log = logging.getLogger(__name__)

_DECISIVE = (
    "run.seed", "engine.model", "proxy.temperature", "trainer.algorithm.", "trainer.actor.", "trainer.optim.",
    "trainer.lora.", "trainer.warm_start.",
)  # fmt: skip
"""Settings that decide on what is learned from given groups, or how their names begin: a run keeps them."""
_COMPARED = ("actor/pg_loss", "actor/grad_norm")
_CLOSE = 1e-4
"""Difference up to which a step that is learned again came out as it did."""


@dataclass(frozen=True, slots=True)
class TakenUp:
    """A learner that has learned all that the run has.

    Attributes:
        learner: it.
        again: steps that it learned from the journal.
        difference: largest difference between what such a step came to and what was reported of it; see `difference`.
    """

    learner: Learner
    again: int = 0
    difference: float = 0.0

    @property
    def metrics(self) -> dict[str, float]:
        """For the next step's line."""
        return {"resume/steps": self.again, "resume/difference": self.difference} if self.again else {}


async def open_history(files: RunFiles, config: Config) -> History:
    """The history of a run, which is empty at its first start. This process has it alone until its journal is closed.

    Raises:
        ConfigError: another trainer has it, it was begun without a journal, or with settings that matter and differ.
        JournalError: it is damaged.
    """
    if not files.journal.exists() and files.has_summary():
        raise ConfigError(f"{files.journal}: not there, though the run was begun before; start another run")
    journal = Journal(files.journal)
    try:
        kept = next((c.kept for c in files.checkpoints.all()), Kept(cursor=0, state=RunState()))
        fold(journal, kept.cursor, kept.state)
        history = History(journal, kept.state)
        await _check_settings(history, config)
    except BaseException:
        journal.close()
        raise
    return history


async def take_up(tools: Tools, make: Callable[[], Learner]) -> TakenUp:
    """A learner that has learned from all the steps of the history, from the same groups in the same order.

    Args:
        tools: of the run.
        make: a learner that has learned nothing.

    Raises:
        JournalError: no checkpoint can be loaded, and the journal does not reach back to the beginning.
        ForgeError: a step comes out otherwise than it did, by more than `trainer.resume.max_difference`.
    """
    for checkpoint in list(tools.files.checkpoints.all()):
        learner = await tools.thread.run(make)
        if await _loads(tools, learner, checkpoint):
            return await _learn_again(tools, learner, checkpoint.kept)
        await tools.thread.run(learner.close)
    learner = await tools.thread.run(make)
    return await _learn_again(tools, learner, Kept(cursor=0, state=RunState()))


async def save(tools: Tools, learner: Learner) -> None:
    """Writes a checkpoint of now. What no checkpoint needs any more of the journal goes."""
    history, checkpoints = tools.history, tools.files.checkpoints
    await history.journal.rotate()
    state = msgspec.msgpack.decode(msgspec.msgpack.encode(history.state), type=RunState)  # as it is at the cursor
    kept = Kept(cursor=history.journal.cursor, state=state)
    await tools.thread.run(checkpoints.save, learner, kept)
    if (oldest := checkpoints.oldest_needed()) is not None:
        await _prune(history, oldest)


def difference(was: Mapping[str, float], now: Mapping[str, float]) -> float:
    """Largest difference of a step's loss and gradient norm between two times that it was learned; relative where a value is
    above 1, and infinite where one is not a number."""
    both = [(was[name], now[name]) for name in _COMPARED if name in was and name in now]
    found = [abs(a - b) / max(1.0, abs(a)) for a, b in both]
    return max((f if math.isfinite(f) else math.inf for f in found), default=0.0)


async def _prune(history: History, oldest: Kept) -> None:
    history.journal.prune(oldest.cursor)
    if history.beside.any():
        async with history.beside.lock:
            needed = await asyncio.to_thread(needed_beside, history.journal, oldest.cursor, oldest.state)
            history.beside.drop_all_but(needed)


def settings_of(config: Config) -> dict[str, str]:
    """The settings that a run keeps, by dotted name."""
    return {name: repr(value) for name, value, _ in Resolved(config, {}).items() if name.startswith(_DECISIVE)}


async def _check_settings(history: History, config: Config) -> None:
    wanted, had = settings_of(config), history.state.settings
    if not had:
        await history.note(Opened(settings=wanted))
        return
    if differ := [f"{n} was {had.get(n, 'unset')} and is {v}" for n, v in wanted.items() if had.get(n) != v]:
        raise ConfigError(
            f"the run began with other settings, which it keeps: {'; '.join(differ)}; start another run with these"
        )


async def _loads(tools: Tools, learner: Learner, checkpoint: Checkpoint) -> bool:
    await tools.stage("resume", f"loading the checkpoint of step {checkpoint.step}")
    try:
        await tools.thread.run(learner.load_checkpoint, checkpoint.folder)
    except Exception:
        log.exception("the checkpoint %s cannot be loaded; an older one is tried", checkpoint.folder)
        return False
    return True


async def _learn_again(tools: Tools, learner: Learner, kept: Kept) -> TakenUp:
    found: list[float] = []
    taught = await tools.thread.run(fold, tools.history.journal, kept.cursor, kept.state)
    for i, step in enumerate(taught):
        await tools.stage("resume", f"learning step {step.done.step} again from the journal", i, len(taught))
        votes = [[read_vote(t) for t in group.trajectories] for group in step.groups]
        samples = credit(votes, tools.config.trainer.algorithm)
        if samples:
            update = await tools.thread.run(learner.update, await tools.history.completed(samples))
            found.append(_compared(step, update, tools.config.trainer.resume.max_difference))
    return TakenUp(learner, len(found), max(found, default=0.0))


def _compared(step: Taught, update: Update, most: float) -> float:
    """The difference between a step and what it comes to now."""
    found = difference(step.done.metrics, update.metrics)
    if found > _CLOSE:
        values = [f"{n} {step.done.metrics.get(n):g}, now {update.metrics.get(n):g}" for n in _COMPARED if n in update.metrics]
        said = f"step {step.done.step} came out otherwise when it was learned again: {'; '.join(values)}"
        log.warning("%s", said)
        if found > most:
            raise ForgeError(
                f"{said}. Are model, software and machine those that the run began with? Nothing was changed; to go on all "
                f"the same, set trainer.resume.max_difference above {found:g}"
            )
    return found


def run_folder(config: Config) -> Path:
    """Where the run keeps what it leaves."""
    return Path(config.run.root) / config.run.id

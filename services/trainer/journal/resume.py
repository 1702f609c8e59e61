"""Going on where an earlier trainer stopped, or was killed: its newest checkpoint, and what the journal has beyond it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

import msgspec

from services.trainer.batch.advantage import credit
from services.trainer.batch.samples import read_vote
from services.trainer.books.files import RunFiles
from services.trainer.journal.checkpoints import Checkpoint, Kept
from services.trainer.journal.history import History, Taught, fold
from services.trainer.journal.journal import Journal
from services.trainer.journal.records import Opened
from services.trainer.journal.state import RunState
from services.trainer.ports import Learner, Update
from services.trainer.tools import Tools
from shared.config import Config, Resolved
from shared.errors import ConfigError

log = logging.getLogger(__name__)

_DECISIVE = (
    "run.seed", "engine.model", "proxy.temperature", "trainer.algorithm.", "trainer.actor.", "trainer.optim.",
    "trainer.warm_start.",
)  # fmt: skip
"""Settings that decide on what is learned from given groups, or how their names begin: a run keeps them."""
_COMPARED = ("actor/pg_loss", "actor/grad_norm")
_CLOSE = 1e-4


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


async def take_up(tools: Tools, make: Callable[[], Learner]) -> Learner:
    """A learner that has learned from all the steps of the history, from the same groups in the same order.

    Args:
        tools: of the run.
        make: a learner that has learned nothing.

    Raises:
        JournalError: no checkpoint can be loaded, and the journal does not reach back to the beginning.
    """
    for checkpoint in list(tools.files.checkpoints.all()):
        learner = await tools.thread.run(make)
        if await _loads(tools, learner, checkpoint):
            await _learn_again(tools, learner, checkpoint.kept)
            return learner
    learner = await tools.thread.run(make)
    await _learn_again(tools, learner, Kept(cursor=0, state=RunState()))
    return learner


async def save(tools: Tools, learner: Learner) -> None:
    """Writes a checkpoint of now. What no checkpoint needs any more of the journal goes."""
    history, checkpoints = tools.history, tools.files.checkpoints
    await history.journal.rotate()
    state = msgspec.msgpack.decode(msgspec.msgpack.encode(history.state), type=RunState)  # as it is at the cursor
    kept = Kept(cursor=history.journal.cursor, state=state)
    await tools.thread.run(checkpoints.save, learner, kept)
    history.journal.prune(checkpoints.oldest_cursor())


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


async def _learn_again(tools: Tools, learner: Learner, kept: Kept) -> None:
    taught = await tools.thread.run(fold, tools.history.journal, kept.cursor, kept.state)
    for i, step in enumerate(taught):
        await tools.stage("resume", f"learning step {step.done.step} again from the journal", i, len(taught))
        votes = [[read_vote(t) for t in group.trajectories] for group in step.groups]
        samples = credit(votes, tools.config.trainer.algorithm)
        if samples:
            samples = await tools.desk.completed(samples)
            _compare(step, await tools.thread.run(learner.update, samples))


def _compare(step: Taught, update: Update) -> None:
    """Says so if a step comes out otherwise than it did."""
    for name in _COMPARED:
        was, now = step.done.metrics.get(name), update.metrics.get(name)
        if was is not None and now is not None and abs(was - now) > _CLOSE * max(1.0, abs(was)):
            log.warning("step %d came out otherwise than before it was killed: %s %g, now %g", step.done.step, name, was, now)


def run_folder(config: Config) -> Path:
    """Where the run keeps what it leaves."""
    return Path(config.run.root) / config.run.id

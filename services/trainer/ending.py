"""The end of a run: nothing goes on of what it asked for, and its books are closed."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import msgspec

from services.trainer.books.ledger import Ledger
from services.trainer.books.meter import Meter
from services.trainer.journal.records import Doomed, Dropped
from services.trainer.journal.state import INTERRUPTED, Group, RunState
from services.trainer.tools import Tools

FAILED = "step_failed"
"""Reason of groups that could have been trained on, had the run not failed before."""
SURPLUS = "surplus"
"""Reason of groups that were under way when the last step had its groups."""


async def end_rollouts(tools: Tools, ok: bool) -> None:
    """Ends the rollouts that are under way. After a run that went well, what they sampled is entered in the books."""
    open_ = [g for g in tools.history.state.groups.values() if g.closed is None and not g.doomed]
    if train := [g.plan.name for g in open_ if g.plan.purpose == "train"]:
        await tools.history.note(Doomed(names=train, reason=SURPLUS if ok else INTERRUPTED))
    await tools.desk.cancel(open_, "the run ended")
    if ok:
        until = asyncio.get_running_loop().time() + tools.config.trainer.settle_s
        meter = Meter(tools.engine, tools.history)
        await _settle(tools, until)
        await _await_late(tools, meter, until)
        await meter.close()


def final_books(state: RunState, ok: bool) -> Ledger:
    """The books of a run that ended. Groups that a failed one had no use for any more are dropped there, and only there: when
    the run is taken up again it learns from them."""
    ledger = msgspec.msgpack.decode(msgspec.msgpack.encode(state.ledger), type=Ledger)
    for closed in [g.closed for g in _train(state) if g.closed] if not ok else []:
        ledger.drop(closed.tokens, FAILED, closed.sessions)
    return ledger


async def _settle(tools: Tools, until: float) -> None:
    """Waits a while for the groups that are still to close, and drops all that is left."""
    history = tools.history
    while left := _train(history.state):
        changed = history.changed
        for group in [g for g in left if g.closed]:
            await history.note(Dropped(name=group.plan.name, reason=group.doomed or SURPLUS))
        if not any(g.closed is None for g in left):
            continue
        try:
            async with asyncio.timeout_at(until):
                await changed.wait()
        except TimeoutError:
            return


async def _await_late(tools: Tools, meter: Meter, until: float) -> None:
    """Waits a while for what is told of attempts whose group was closed without them, if the engine sampled anything that
    nothing tells of."""
    history = tools.history
    while True:
        await meter.read()
        changed = history.changed
        if history.state.ledger.balance().unaccounted <= 0:
            return
        try:
            async with asyncio.timeout_at(until):
                await changed.wait()
        except TimeoutError:
            return


def _train(state: RunState) -> Sequence[Group]:
    return [g for g in state.groups.values() if g.plan.purpose == "train"]

"""Settles an attempt as soon as its outcome and all its calls are there."""

from __future__ import annotations

import logging
import time

import msgspec

from services.collector.assemble import missing
from services.collector.attempt import Outcome, Settled, conclude, too_late
from shared.bus import Bus
from shared.config import CollectorConfig
from shared.errors import StoreWiped
from shared.events import (
    CallRecorded,
    RolloutFailed,
    RolloutFinished,
    RolloutTimedOut,
    SessionSealed,
    TrajectoryAssembled,
    TrajectoryDiscarded,
)
from shared.store.assembly import Assembly

log = logging.getLogger(__name__)

_outcomes = msgspec.json.Decoder(RolloutFinished | RolloutTimedOut | RolloutFailed)
_sealings = msgspec.json.Decoder(SessionSealed)
_records = msgspec.json.Decoder(CallRecorded)


class Settling:
    """Attempts of one run."""

    def __init__(self, config: CollectorConfig, bus: Bus, assembly: Assembly) -> None:
        self._config = config
        self._bus = bus
        self._assembly = assembly

    async def settle(self, session: str) -> str | None:
        """Settles the attempt of a session if all of it is there. The group in which it is settled, now or before: that which
        its outcome names, whatever its calls say."""
        about = await self._ended(session)
        if about is None:
            return None
        if await self._assembly.is_settled(about.group_id, about.rollout_id, about.attempt):
            return about.group_id
        began = time.perf_counter()
        settled = await self._conclude(session)
        log.info("attempt %s: %s, %.1f ms", session, settled.outcome, (time.perf_counter() - began) * 1e3)
        if not await self._assembly.is_closed(about.group_id) and await self._note(about, session, settled):
            return about.group_id
        log.warning("attempt %s is complete only after its group %s was closed", session, about.group_id)
        await self._bus.publish(_told(about, too_late(settled)))
        return None

    async def _note(self, about: Outcome, session: str, settled: Settled) -> bool:
        """False if the group was closed at the last moment."""
        # Published before it is noted: a kill in between repeats it under the same id, but it is never left out.
        await self._bus.publish(_told(about, settled))
        body = msgspec.json.encode(settled)
        return await self._assembly.settle(about.group_id, session, about.rollout_id, about.attempt, body)

    async def _ended(self, session: str) -> Outcome | None:
        """The outcome of an attempt of which all is there. Asked after every call, hence without loading the calls."""
        sealed, outcome = await self._assembly.ends(session)
        if outcome is None:
            return None
        ended = _outcomes.decode(outcome)
        if sealed is None:
            return ended if isinstance(ended, RolloutFailed) and not ended.sealed else None
        absent = missing(_sealings.decode(sealed), await self._assembly.call_numbers(session))
        return None if absent else ended

    async def _conclude(self, session: str) -> Settled:
        parts = await self._assembly.load(session)
        if parts.outcome is None:
            raise StoreWiped(f"the store lost the outcome of {session}, which was there a moment ago")
        sealed = _sealings.decode(parts.sealed) if parts.sealed is not None else None
        records = [_records.decode(body) for body in parts.calls.values()]
        return conclude(_outcomes.decode(parts.outcome), sealed, records, parts.conflict, self._config)


def _told(about: Outcome, settled: Settled) -> TrajectoryAssembled | TrajectoryDiscarded:
    made = settled.trajectory
    if made is None:
        return TrajectoryDiscarded(
            run_id=about.run_id, rollout_id=about.rollout_id, attempt=about.attempt, group_id=about.group_id,
            purpose=about.purpose, reason=settled.outcome, detail=settled.detail, tokens=settled.tokens,
        )  # fmt: skip
    return TrajectoryAssembled(
        run_id=about.run_id, rollout_id=about.rollout_id, attempt=about.attempt, group_id=about.group_id,
        purpose=about.purpose, reward=made.reward, calls=made.calls, rows=len(made.rows), tokens=made.tokens,
        untrained=settled.untrained,
    )  # fmt: skip

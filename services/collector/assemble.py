"""Calls of one attempt -> training rows, and the fate of every sampled token. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from services.collector.calls import fates, restore
from services.collector.merge import link, reasons, rows
from services.collector.tokens import count
from shared.errors import FidelityError
from shared.events import CallRecorded, Row, SessionSealed, TokenCounts


@dataclass(frozen=True, slots=True)
class Assembled:
    """What an attempt gives.

    Attributes:
        rows: to be trained.
        tokens: where its sampled tokens went.
        untrained: numbers of the calls that no row trains, ascending, per reason.
        calls: number of calls that can be used.
        min_version: of the weights that its calls saw; 0 without calls.
        max_version: likewise.
    """

    rows: list[Row]
    tokens: TokenCounts
    untrained: dict[str, list[int]]
    calls: int
    min_version: int
    max_version: int


def unusable(sealed: SessionSealed) -> set[int]:
    """Numbers of calls that no row may use, recorded or not."""
    return {*sealed.errored, *sealed.lost}


def missing(sealed: SessionSealed, recorded: Iterable[int]) -> list[int]:
    """Numbers of calls whose records are still to come, ascending."""
    return sorted(set(range(1, sealed.calls + 1)) - unusable(sealed) - set(recorded))


def assemble(records: Sequence[CallRecorded], sealed: SessionSealed, *, max_row_tokens: int) -> Assembled:
    """Makes the rows of one attempt; the order of `records` does not matter.

    Args:
        records: of the session, one per number.
        sealed: of the same session.
        max_row_tokens: calls that end beyond it are dropped as `overlong`, so that a row is only ever cut between calls.

    Raises:
        FidelityError: records are lost, missing, more than were numbered, or contradict themselves or each other.
    """
    _check_numbers({r.seq for r in records}, sealed)
    calls = restore(records)
    usable = [c for c in calls if c.seq not in unusable(sealed)]
    cut = {*sealed.cut, *(c.seq for c in usable if c.record.delivery == "cut")}
    parents = link(usable, cut)
    untrained = reasons(usable, parents, cut, max_row_tokens)
    why_not = {**untrained, **{c.seq: "lost" for c in calls if c.seq in unusable(sealed)}}
    return Assembled(
        rows=rows(usable, parents, trained={c.seq for c in usable if c.record.completion} - untrained.keys()),
        tokens=count(fates(records, why_not, None)),
        untrained={why: sorted(seq for seq, w in why_not.items() if w == why) for why in sorted(set(why_not.values()))},
        calls=len(usable),
        min_version=min((c.record.weight_version_start for c in usable), default=0),
        max_version=max((c.record.weight_version_end for c in usable), default=0),
    )


def _check_numbers(numbers: set[int], sealed: SessionSealed) -> None:
    name = f"session {sealed.session_id}"
    if sealed.lost:
        raise FidelityError(f"{name}: calls {sealed.lost} have no durable record")
    if absent := missing(sealed, numbers):
        raise FidelityError(f"{name}: the records of calls {absent} are missing")
    if surplus := sorted(numbers - set(range(1, sealed.calls + 1))):
        raise FidelityError(f"{name}: calls {surplus} are recorded, but only 1 to {sealed.calls} were numbered")

"""How many places of a pool a run may hold. Pure.

The next free place goes to the run that holds the fewest in proportion to its weight, among those that want one; of several, to
the one that was last given a place the longest ago. So all who want places hold them in proportion to their weights, to within
one; nobody who wants one is passed over for ever, however small its weight; and what nobody else wants is lent. Nothing that
is held is taken away: a lent place comes back when its rollout ends.
"""

from __future__ import annotations

from collections.abc import Mapping
from heapq import heapify, heappop, heappush

import msgspec

from shared.store.shares import Part


def settled(me: str, mine: Part, others: Mapping[str, Part], young: bool = False) -> Part:
    """The part of a run as it may be kept: with the places that it may hold from now on.

    Args:
        me: the run.
        mine: what it holds and wants; its `room` counts for nothing.
        others: parts of the other runs.
        young: others may hold places that are not known yet, so none is given.
    """
    free = min(part.size for part in (mine, *others.values())) - mine.held - sum(part.room for part in others.values())
    turn = max((part.turn for part in (mine, *others.values())), default=0)
    won = 0 if young else _won(me, mine, others, free)
    return msgspec.structs.replace(mine, room=mine.held + won, turn=turn + 1 if won else mine.turn)


def _won(me: str, mine: Part, others: Mapping[str, Part], free: int) -> int:
    """How many of the free places are this run's, if they are given one after the other."""
    runs = {name: (part.room, part) for name, part in others.items()} | {me: (mine.held, mine)}
    waiting = [(has / part.weight, part.turn, name, has) for name, (has, part) in runs.items() if has < part.want]
    heapify(waiting)
    won = 0
    while free > 0 and waiting and won < mine.want - mine.held:
        _, turn, name, has = heappop(waiting)
        part, free, won = runs[name][1], free - 1, won + (name == me)
        if has + 1 < part.want:
            heappush(waiting, ((has + 1) / part.weight, turn, name, has + 1))
    return won

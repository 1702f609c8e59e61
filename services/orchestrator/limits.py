"""How long an agent may run, learned from how long those of the same harness and family of tasks took. Pure.

An agent that was cut short would have taken longer, and nobody knows how much: it counts as longer than all that ended by
themselves. Where so many were cut short that nothing can be told, the longest time seen stands for what is asked, and `factor`
lets the next ones run longer than that: a limit that was learned too low rises again.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Collection
from functools import partial
from math import ceil
from typing import NamedTuple

from services.orchestrator.state import Outcome
from shared.config import OrchestratorConfig
from shared.events import RolloutFailed, RolloutFinished

LATEST = 200
"""Agents of a kind that are remembered."""
KINDS = 1000
"""Kinds that are remembered; the one that nothing was heard of for the longest time is forgotten first."""

_EXACT = 1e-9


class Took(NamedTuple):
    """Seconds that an agent took, and whether it ended by itself then."""

    seconds: float
    ended: bool


def seconds_of(share: float, sample: Collection[Took]) -> float:
    """Seconds after which `share` of the agents have ended by themselves; if nobody can tell, the longest of the sample."""
    ended = sorted(took.seconds for took in sample if took.ended)
    place = ceil(share * len(sample) - _EXACT)
    return ended[place - 1] if place <= len(ended) else max(took.seconds for took in sample)


class Limits:
    """Wall-clock limits of agents for which neither the command nor the task says one.

    Args:
        config: the limit, or how it is learned.
    """

    def __init__(self, config: OrchestratorConfig) -> None:
        self._most, self._learned = config.timeout_s, config.auto if config.timeout == "auto" else None
        self._samples: defaultdict[tuple[str, str], deque[Took]] = defaultdict(partial(deque, maxlen=LATEST))

    def learn(self, family: str, outcome: Outcome) -> None:
        """An attempt at a task of that family has ended. One that failed says nothing about its agent."""
        if isinstance(outcome, RolloutFailed):
            return
        kind = (outcome.harness, family)
        sample = self._samples.pop(kind, None)
        if sample is not None:
            self._samples[kind] = sample  # the last one from here on
        elif len(self._samples) == KINDS:
            del self._samples[next(iter(self._samples))]
        self._samples[kind].append(Took(outcome.agent_s, isinstance(outcome, RolloutFinished)))

    def limit_s(self, harness: str, family: str) -> float:
        """Seconds for an agent that begins now."""
        sample, how = self._samples.get((harness, family), ()), self._learned
        if how is None or len(sample) < how.sample:
            return self._most
        return min(self._most, max(how.floor_s, how.factor * seconds_of(how.quantile, sample)))

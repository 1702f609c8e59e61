"""Which rollouts are exported, and which attempt of each. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from services.collector.history import Attempt, Group, History, Rollout
from services.dev.fates import reward_of
from shared.events import TrajectoryAssembled


@dataclass(frozen=True, slots=True)
class Filter:
    """What is wanted; None takes all.

    Attributes:
        min_reward: smallest reward of the verifier.
        harness: name of the adapter.
        task: name of the task.
        purpose: `train` or `eval`.
    """

    min_reward: float | None = None
    harness: str | None = None
    task: str | None = None
    purpose: str | None = None


@dataclass(frozen=True, slots=True)
class Chosen:
    """A rollout with the attempt that counts, and its reward."""

    rollout: Rollout
    attempt: Attempt
    group: Group
    reward: float


def select(history: History, wanted: Filter) -> Iterator[Chosen]:
    """The rollouts that have a reward and pass a filter, in the order of their ids."""
    for _, rollout in sorted(history.rollouts.items()):
        attempt = _counts(rollout)
        reward = None if attempt is None else reward_of(attempt)
        if attempt is not None and reward is not None and _passes(rollout, reward, wanted):
            yield Chosen(rollout, attempt, history.groups[rollout.group_id], reward)


def _counts(rollout: Rollout) -> Attempt | None:
    """The attempt that has the vote, else the last one with a reward."""
    scored = [a for _, a in sorted(rollout.attempts.items()) if reward_of(a) is not None]
    voted = [a for a in scored if isinstance(a.settled, TrajectoryAssembled)]
    return next(iter(voted or scored[::-1]), None)


def _passes(rollout: Rollout, reward: float, wanted: Filter) -> bool:
    return (
        (wanted.min_reward is None or reward >= wanted.min_reward)
        and wanted.harness in (None, rollout.harness)
        and wanted.task in (None, rollout.task)
        and wanted.purpose in (None, rollout.purpose)
    )

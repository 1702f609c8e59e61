"""When a group is ready and whether it can be trained on. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil

import msgspec

from services.collector.attempt import Outcome, Settled
from services.collector.tokens import total, untrain
from shared.config import CollectorConfig
from shared.events import GroupCompleted, GroupDiscarded, Purpose, RolloutScheduled, TokenCounts, Trajectory

NO_VARIANCE = 1e-6
"""Rewards of a group whose range is at most this times (1 + the largest magnitude) carry no signal."""


class GroupInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A group as its rollouts announce it. `size` is the number of its rollouts."""

    run_id: str
    group_id: str
    size: int
    purpose: Purpose
    task: str


def info_of(message: RolloutScheduled | Outcome) -> GroupInfo:
    """The group that a rollout is announced, or ends, as a part of."""
    return GroupInfo(
        run_id=message.run_id,
        group_id=message.group_id,
        size=message.group_size,
        purpose=message.purpose,
        task=message.task,
    )


@dataclass(slots=True)
class Slot:
    """One rollout of a group.

    Attributes:
        attempts: what became of its attempts, by number.
        last: number of its last attempt, where a failure declared it.
    """

    attempts: dict[int, Settled] = field(default_factory=dict)
    last: int | None = None

    @property
    def final(self) -> bool:
        """No attempt follows, and what became of all of them is known (only then do the token counts hold)."""
        ends = [a for a, settled in self.attempts.items() if settled.final] + ([self.last] if self.last is not None else [])
        return bool(ends) and all(a in self.attempts for a in range(1, min(ends) + 1))

    @property
    def vote(self) -> Trajectory | None:
        """The rollout's trajectory: that of its first attempt that gave one."""
        return next((s.trajectory for _, s in sorted(self.attempts.items()) if s.trajectory), None)

    @property
    def outcome(self) -> str | None:
        """Of the attempt that votes, else of the last one; None before there is any."""
        vote = self.vote
        return self.attempts[vote.attempt if vote else max(self.attempts)].outcome if self.attempts else None

    @property
    def tokens(self) -> TokenCounts:
        """Over all attempts; only the one that votes trains."""
        vote = self.vote
        return total(s.tokens if s.trajectory is vote else untrain(s.tokens, "superseded") for s in self.attempts.values())


def read_slots(settled: Mapping[tuple[str, int], bytes]) -> dict[str, Slot]:
    """Slots by rollout id, from what the store keeps: settled attempts, and as attempt 0 the number of the last one."""
    slots: defaultdict[str, Slot] = defaultdict(Slot)
    for (rollout, attempt), body in settled.items():
        if attempt:
            slots[rollout].attempts[attempt] = msgspec.json.decode(body, type=Settled)
        else:
            slots[rollout].last = int(body)
    return dict(slots)


def needed(size: int, config: CollectorConfig) -> int:
    """Rollouts with a reward that a group of so many needs to be trained on."""
    return size if config.strict else config.min_group or max(2, ceil(size / 2))


def decide(
    info: GroupInfo, slots: Mapping[str, Slot], config: CollectorConfig, *, overdue: bool = False
) -> GroupCompleted | GroupDiscarded | None:
    """The message that closes a group, or None while it is to stay open.

    Args:
        info: the group.
        slots: its rollouts as far as known, by rollout id.
        config: how many votes it needs.
        overdue: close it now, with what is there.
    """
    absent = info.size - sum(slot.final for slot in slots.values())
    if absent > 0 and not overdue:
        return None
    votes = [v for _, slot in sorted(slots.items()) if (v := slot.vote)]
    tokens = total(slot.tokens for slot in slots.values())
    outcomes = _outcomes(info, slots.values())
    attempts = {rollout: sorted(slot.attempts) for rollout, slot in sorted(slots.items()) if slot.attempts}
    if info.purpose == "train" and (refusal := _refusal(votes, info.size, needed(info.size, config), overdue and absent > 0)):
        reason, detail = refusal
        return GroupDiscarded(
            run_id=info.run_id, group_id=info.group_id, purpose=info.purpose, task=info.task,
            tokens=untrain(tokens, reason), outcomes=outcomes, attempts=attempts, reason=reason, detail=detail,
        )  # fmt: skip
    return GroupCompleted(
        run_id=info.run_id, group_id=info.group_id, purpose=info.purpose, task=info.task,
        tokens=tokens, outcomes=outcomes, attempts=attempts, trajectories=votes,
    )  # fmt: skip


def _refusal(votes: Sequence[Trajectory], size: int, need: int, cut_short: bool) -> tuple[str, str] | None:
    if len(votes) < need:
        detail = f"{len(votes)} of {size} rollouts have a reward to train on; {need} are needed"
        return "deadline" if cut_short else "too_few", detail
    rewards = [v.reward for v in votes]
    if max(rewards) - min(rewards) <= NO_VARIANCE * (1 + max(map(abs, rewards))):
        return "no_variance", f"all {len(votes)} rewards are {rewards[0]:g}"
    return None


def _outcomes(info: GroupInfo, slots: Iterable[Slot]) -> dict[str, int]:
    """Rollouts per outcome; those of which nothing was heard in time count as `deadline`."""
    known = Counter(slot.outcome or "deadline" for slot in slots)
    return dict(sorted((known + Counter(deadline=info.size - known.total())).items()))

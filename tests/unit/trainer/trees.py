"""Rollouts as made-up trees of calls, and rows they can be merged into: a call may be trained by any row that holds it."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from hypothesis import strategies as st

from services.trainer.batch.samples import Vote, read_vote
from shared.events import Row, Span
from shared.packing import pack_floats, pack_ids, pack_mask
from tests.unit.trainer.twins import trajectory

VOCABULARY = 11


@dataclass(frozen=True)
class Call:
    """A call: `full` is what it saw and what it sampled; the last `sampled` tokens are its own."""

    seq: int
    parent: Call | None
    full: tuple[int, ...]
    sampled: int
    trained: bool

    @property
    def start(self) -> int:
        """Place of its first sampled token."""
        return len(self.full) - self.sampled

    @property
    def path(self) -> list[Call]:
        """From its root to itself."""
        return [*(self.parent.path if self.parent else []), self]


@dataclass(frozen=True)
class Rollout:
    """A rollout with its calls in the order of their numbers."""

    reward: float
    calls: list[Call]

    def after(self, call: Call) -> int:
        """Trained calls that came after a call."""
        return sum(c.trained for c in self.calls if c.seq > call.seq)

    @property
    def trained(self) -> int:
        """Trained tokens."""
        return sum(c.sampled for c in self.calls if c.trained)


@st.composite
def rollouts(draw: st.DrawFn, rewards: st.SearchStrategy[float], most: int = 6) -> Rollout:
    """A rollout of up to `most` calls, each grown from an earlier one or from nothing, most of them trained."""
    rng = random.Random(draw(st.integers(0, 2**32)))
    calls: list[Call] = []
    for seq in range(1, draw(st.integers(1, most)) + 1):
        parent = rng.choice([None, *calls, *calls[-1:]])
        sampled = rng.randint(1, 4)
        new = [rng.randrange(VOCABULARY) for _ in range(rng.randint(1, 3) + sampled)]
        calls.append(Call(seq, parent, (*(parent.full if parent else ()), *new), sampled, rng.random() < 0.8))
    return Rollout(draw(rewards), calls)


def groups(rewards: st.SearchStrategy[float]) -> st.SearchStrategy[list[list[Rollout]]]:
    """Groups of two to four rollouts, of which at least one trains a token."""
    made = st.lists(st.lists(rollouts(rewards), min_size=2, max_size=4), min_size=1, max_size=2)
    return made.filter(lambda gs: any(r.trained for g in gs for r in g))


def merged(rollout: Rollout, owners: random.Random) -> Vote:
    """One row per leaf. Which of the rows that hold a call trains it is drawn by lot."""
    parents = {c.parent.seq for c in rollout.calls if c.parent}
    leaves = [c for c in rollout.calls if c.seq not in parents]
    owner = {c.seq: owners.choice([leaf.seq for leaf in leaves if c in leaf.path]) for c in rollout.calls}
    return _vote(rollout, [(leaf.path[0], leaf, [c for c in leaf.path if owner[c.seq] == leaf.seq]) for leaf in leaves])


def unmerged(rollout: Rollout) -> Vote:
    """One row per call."""
    return _vote(rollout, [(c, c, [c]) for c in rollout.calls])


def _vote(rollout: Rollout, paths: Sequence[tuple[Call, Call, Sequence[Call]]]) -> Vote:
    rows = [_row(rollout, root, leaf, [c for c in owned if c.trained]) for root, leaf, owned in paths]
    return read_vote(trajectory("r", rollout.reward, made=rows))


def _row(rollout: Rollout, root: Call, leaf: Call, owned: Sequence[Call]) -> Row:
    mask = [any(c.start <= i < len(c.full) for c in owned) for i in range(len(leaf.full))]
    return Row(
        prompt_len=root.start,
        ids=pack_ids(leaf.full),
        response_mask=pack_mask(mask),
        logprobs=pack_floats([-1.0 * m for m in mask]),
        spans=[Span(seq=c.seq, start=c.start, end=len(c.full), after=rollout.after(c)) for c in owned],
    )

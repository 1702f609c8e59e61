"""Groups made up for the trainer's benchmark, in the form in which the collector publishes them."""

from __future__ import annotations

import random
from dataclasses import dataclass

from shared.events import GroupCompleted, Row, Span, Trajectory, encode
from shared.packing import pack_floats, pack_ids, pack_mask

VOCABULARY = 256
_LOG_PROB = -5.0  # about that of a random model


@dataclass(frozen=True, slots=True)
class Shape:
    """Size of a step.

    Attributes:
        groups: of it.
        n: trajectories of a group.
        calls: of a trajectory; all in one row.
        news: tokens by which each prompt is longer than the last and its reply.
        reply: sampled tokens of a call.
    """

    groups: int = 8
    n: int = 8
    calls: int = 3
    news: int = 40
    reply: int = 40

    @property
    def tokens(self) -> int:
        """Of all rows."""
        return self.groups * self.n * self.calls * (self.news + self.reply)

    @property
    def trained(self) -> int:
        """Of all rows, those that are learned from."""
        return self.groups * self.n * self.calls * self.reply


def groups(shape: Shape, seed: int) -> list[bytes]:
    """The messages of a step's groups."""
    draw = random.Random(seed)
    made = [[_trajectory(shape, draw, g, i) for i in range(shape.n)] for g in range(shape.groups)]
    return [encode(GroupCompleted(run_id="bench", group_id=f"g{g}", trajectories=t)) for g, t in enumerate(made)]


def _trajectory(shape: Shape, draw: random.Random, group: int, number: int) -> Trajectory:
    return Trajectory(
        rollout_id=f"r{group}-{number}", attempt=1, task="bench", harness="bench", reward=float(number % 2),
        calls=shape.calls, rows=[_row(shape, draw)],
    )  # fmt: skip


def _row(shape: Shape, draw: random.Random) -> Row:
    mask = ([0] * shape.news + [1] * shape.reply) * shape.calls
    return Row(
        prompt_len=shape.news,
        ids=pack_ids(draw.randrange(VOCABULARY) for _ in mask),
        response_mask=pack_mask(mask),
        logprobs=pack_floats(m * _LOG_PROB for m in mask),
        spans=_spans(shape),
    )


def _spans(shape: Shape) -> list[Span]:
    each = shape.news + shape.reply
    return [
        Span(seq=i + 1, start=i * each + shape.news, end=(i + 1) * each, after=shape.calls - 1 - i) for i in range(shape.calls)
    ]

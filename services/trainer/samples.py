"""Training sequences as plain lists: what comes between the wire's packed rows and the learner's tensors."""

from __future__ import annotations

import math
from dataclasses import dataclass

from shared.errors import FidelityError
from shared.events import Row, Trajectory
from shared.packing import unpack_floats, unpack_ids, unpack_mask


@dataclass(frozen=True, slots=True)
class Sample:
    """One training sequence of L tokens.

    Attributes:
        ids: token ids (L,).
        prompt_len: tokens before the response, 1..L-1.
        mask: 0 or 1 per response token (L - prompt_len,); 1 is trained.
        logprobs: the engine's at sampling time per response token (L - prompt_len,), nats, 0 where mask is 0.
        advantage: of every trained token, its trajectory's weight folded in.
    """

    ids: list[int]
    prompt_len: int
    mask: list[int]
    logprobs: list[float]
    advantage: float = 0.0

    @property
    def trained(self) -> int:
        """Number of trained tokens."""
        return sum(self.mask)


@dataclass(frozen=True, slots=True)
class Vote:
    """One trajectory: its reward, and its rows as samples. It counts once, however many those are."""

    reward: float
    samples: list[Sample]

    @property
    def trained(self) -> int:
        """Number of trained tokens."""
        return sum(s.trained for s in self.samples)


def read_vote(trajectory: Trajectory) -> Vote:
    """A trajectory with its rows unpacked.

    Raises:
        FidelityError: a row is malformed, or the reward is not finite.
    """
    if not math.isfinite(trajectory.reward):
        raise FidelityError(f"rollout {trajectory.rollout_id} has the reward {trajectory.reward}")
    return Vote(trajectory.reward, [unpack(row) for row in trajectory.rows])


def unpack(row: Row) -> Sample:
    """A row as a sample.

    Raises:
        FidelityError: its arrays cannot be unpacked or differ in length, a prompt token is to be trained, or a log-prob is not
            a finite number <= 0.
    """
    try:
        ids, mask, logprobs = unpack_ids(row.ids), unpack_mask(row.response_mask), unpack_floats(row.logprobs)
    except ValueError as e:
        raise FidelityError(f"a row cannot be unpacked: {e}") from e
    if not len(ids) == len(mask) == len(logprobs):
        raise FidelityError(f"a row has {len(ids)} ids, {len(mask)} mask values and {len(logprobs)} log-probs")
    if not 0 < row.prompt_len < len(ids):
        raise FidelityError(f"a row of {len(ids)} tokens has a prompt of {row.prompt_len}")
    if any(mask[: row.prompt_len]) or max(mask) > 1:
        raise FidelityError("a row trains tokens of its prompt, or its mask has values other than 0 and 1")
    if not all(math.isfinite(p) and p <= 0 for p in logprobs):
        raise FidelityError("a row has a log-prob that is not a finite number <= 0")
    return Sample(ids, row.prompt_len, mask[row.prompt_len :], logprobs[row.prompt_len :])

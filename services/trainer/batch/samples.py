"""Training sequences as plain lists: what comes between the wire's packed rows and the learner's tensors."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from shared.errors import FidelityError
from shared.events import Media, Row, Span, Trajectory
from shared.packing import unpack_floats, unpack_ids, unpack_mask

Beside = Mapping[str, bytes]
"""Images and the like that rows refer to, by the sha256 of their bytes."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One training sequence of L tokens.

    Attributes:
        ids: token ids (L,).
        prompt_len: tokens before the response, 1..L-1.
        mask: 0 or 1 per response token (L - prompt_len,); 1 is trained.
        logprobs: the engine's at sampling time per response token (L - prompt_len,), nats, 0 where mask is 0.
        spans: the calls that it trains (S,): where the mask is 1. None in supervised training, which knows no calls.
        advantages: of each span's tokens (S,).
        version: weight version that the oldest call of its trajectory saw.
        group: number of its group in the batch.
        trajectory: number of its trajectory in the batch; rows of one trajectory share one vote.
        media: images among the ids (M,), in the order of their places.
        pictures: their bytes (M,), once `completed`.
        experts: which experts the engine chose for the first tokens, as a file of numpy's: (tokens, layers, k) of unsigned
            integers; empty where it is not on record.
        experts_sha256: of that file; empty where it is not on record.
    """

    ids: list[int]
    prompt_len: int
    mask: list[int]
    logprobs: list[float]
    spans: Sequence[Span] = ()
    advantages: Sequence[float] = ()
    version: int = 0
    group: int = 0
    trajectory: int = 0
    media: Sequence[Media] = ()
    pictures: Sequence[bytes] = ()
    experts: bytes = b""
    experts_sha256: str = ""

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
        FidelityError: a row is malformed, a call is trained twice or out of its turn, or the reward is not finite.
    """
    if not math.isfinite(trajectory.reward):
        raise FidelityError(f"rollout {trajectory.rollout_id} has the reward {trajectory.reward}")
    samples = [unpack(row, trajectory.min_version) for row in trajectory.rows]
    spans = sorted((span for s in samples for span in s.spans), key=lambda span: span.seq, reverse=True)
    if len({span.seq for span in spans}) < len(spans) or any(span.after != i for i, span in enumerate(spans)):
        found = [(span.seq, span.after) for span in reversed(spans)]
        raise FidelityError(
            f"rollout {trajectory.rollout_id}: of its trained calls, each has one span, which counts those with higher "
            f"numbers; as (number, count) it has {found}"
        )
    return Vote(trajectory.reward, samples)


def unpack(row: Row, version: int = 0) -> Sample:
    """A row as a sample.

    Args:
        row: as it came.
        version: weight version that the oldest call of its trajectory saw.

    Raises:
        FidelityError: its arrays cannot be unpacked or differ in length, a prompt token is to be trained, its spans are not
            where its mask is 1, or a log-prob is not a finite number <= 0.
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
    if not _tile(row.spans, mask):
        raise FidelityError("a row's spans are not the places where its mask is 1, one after the other")
    if not all(math.isfinite(p) and p <= 0 for p in logprobs):
        raise FidelityError("a row has a log-prob that is not a finite number <= 0")
    return Sample(
        ids, row.prompt_len, mask[row.prompt_len :], logprobs[row.prompt_len :], row.spans, version=version,
        media=row.media, experts_sha256=row.experts,
    )  # fmt: skip


def referred(sample: Sample) -> list[str]:
    """Hashes of the blobs that a sample refers to."""
    return _hashes(sample.media, sample.experts_sha256)


def mentioned(trajectories: Iterable[Trajectory]) -> set[str]:
    """Hashes of the blobs that the rows of trajectories refer to."""
    return {sha for t in trajectories for row in t.rows for sha in _hashes(row.media, row.experts)}


def completed(sample: Sample, beside: Beside) -> Sample:
    """A sample with what it refers to."""
    experts = beside[sample.experts_sha256] if sample.experts_sha256 else b""
    return replace(sample, pictures=[beside[m.sha256] for m in sample.media], experts=experts)


def _hashes(media: Sequence[Media], experts: str) -> list[str]:
    return [m.sha256 for m in media] + ([experts] if experts else [])


def _tile(spans: Sequence[Span], mask: Sequence[int]) -> bool:
    """Whether spans, in the order of their places and none of them empty, cover the ones of a mask and nothing else."""
    ends = [0, *(span.end for span in spans)]
    in_order = all(end <= span.start < span.end for end, span in zip(ends, spans, strict=False))
    covered = sum(span.end - span.start for span in spans)
    return in_order and covered == sum(mask) == sum(sum(mask[span.start : span.end]) for span in spans)

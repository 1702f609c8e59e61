"""Samples to tensors, under veRL's field names."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count

import services.trainer.cpu_platform  # noqa: F401 - before all else of veRL: it sets the platform

# isort: split
import torch
from tensordict import TensorDict
from torch import Tensor
from verl.workers.utils.padding import left_right_2_no_padding

from services.trainer.samples import Sample


def padded(samples: Sequence[Sample]) -> TensorDict:
    """Samples as veRL's left-right padded batch of B sequences, prompts up to P and responses up to R tokens, L = P + R.

    Returns:
        `prompts` (B, P) int64, padded on the left; `responses` (B, R) int64, padded on the right; `input_ids`,
        `attention_mask`, `position_ids` (B, L) int64; `response_mask` (B, R) int64; `calls` (B, R) int64,
        the number of each trained token's call in the batch, from 1; `rollout_log_probs` and `advantages` (B, R) float32. The
        last three are 0 where the mask is 0.
    """
    prompts = _pad([s.ids[: s.prompt_len] for s in samples], left=True)
    responses = _pad([s.ids[s.prompt_len :] for s in samples])
    attention = torch.cat([_ones([s.prompt_len for s in samples]).flip(-1), _ones([len(s.mask) for s in samples])], dim=-1)
    mask = _pad([s.mask for s in samples])
    return TensorDict(
        {
            "prompts": prompts,
            "responses": responses,
            "input_ids": torch.cat([prompts, responses], dim=-1),
            "attention_mask": attention,
            "position_ids": (attention.cumsum(-1) - 1).clamp(min=0),
            "response_mask": mask,
            "calls": _painted(samples, mask.shape[1], count(1)).long(),
            "rollout_log_probs": _pad([s.logprobs for s in samples]).masked_fill(mask == 0, 0.0),
            "advantages": _painted(samples, mask.shape[1], (a for s in samples for a in s.advantages)),
        },
        batch_size=[len(samples)],
    )


def jagged(batch: TensorDict) -> TensorDict:
    """A copy of a padded batch in the layout that veRL's workers take (`input_ids` and `position_ids` without padding)."""
    return left_right_2_no_padding(batch.clone())


def sequences(ids: Sequence[Sequence[int]]) -> TensorDict:
    """Whole sequences as a batch for inference: the first token of each is its prompt."""
    return padded([Sample(list(s), 1, [1] * (len(s) - 1), [0.0] * (len(s) - 1)) for s in ids])


def _painted(samples: Sequence[Sample], width: int, values: Iterator[float]) -> Tensor:
    """A value for each span of the batch, in its order, on each of the span's tokens, (B, width) float32."""
    painted = torch.zeros(len(samples), width)
    for row, s in zip(painted, samples, strict=True):
        for span, value in zip(s.spans, values, strict=False):
            row[span.start - s.prompt_len : span.end - s.prompt_len] = value
    return painted


def _pad(rows: Sequence[Sequence[int]] | Sequence[Sequence[float]], left: bool = False) -> Tensor:
    tensors = [torch.tensor(r) for r in rows]
    return torch.nn.utils.rnn.pad_sequence(tensors, batch_first=True, padding_side="left" if left else "right")


def _ones(lengths: Sequence[int]) -> Tensor:
    return _pad([[1] * n for n in lengths])

"""Samples to tensors, under veRL's field names."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count

import services.trainer.verl.cpu_platform  # noqa: F401 - before all else of veRL: it sets the platform

# isort: split
import numpy as np
import torch
from tensordict import TensorDict
from torch import Tensor
from verl.utils import tensordict_utils as tu
from verl.workers.utils.padding import left_right_2_no_padding

from services.trainer.batch.samples import Sample
from services.trainer.verl.routing import routed_experts
from services.trainer.verl.vision import Vision


def padded(samples: Sequence[Sample], vision: Vision | None = None) -> TensorDict:
    """Samples as veRL's left-right padded batch of B sequences, prompts up to P and responses up to R tokens, L = P + R.

    Args:
        samples: B of them.
        vision: of a model that sees. `position_ids` is then (B, 4, L), and `multi_modal_inputs` is a field with what the
            model is given of each sample's images.

    Returns:
        `prompts` (B, P) int64, padded on the left; `responses` (B, R) int64, padded on the right; `input_ids`,
        `attention_mask`, `position_ids` (B, L) int64; `response_mask` (B, R) int64; `calls` (B, R) int64,
        the number of each trained token's call in the batch, from 1; `rollout_log_probs` and `advantages` (B, R) float32. The
        last three are 0 where the mask is 0.
    """
    prompts = _pad([s.ids[: s.prompt_len] for s in samples], np.int64, left=True)
    responses = _pad([s.ids[s.prompt_len :] for s in samples], np.int64)
    attention = torch.cat([_ones([s.prompt_len for s in samples]).flip(-1), _ones([len(s.mask) for s in samples])], dim=-1)
    mask = _pad([s.mask for s in samples], np.int64)
    batch = TensorDict(
        {
            "prompts": prompts,
            "responses": responses,
            "input_ids": torch.cat([prompts, responses], dim=-1),
            "attention_mask": attention,
            "position_ids": (attention.cumsum(-1) - 1).clamp(min=0),
            "response_mask": mask,
            "calls": _painted(samples, mask.shape[1], count(1)).long(),
            "rollout_log_probs": _pad([s.logprobs for s in samples], np.float32).masked_fill(mask == 0, 0.0),
            "advantages": _painted(samples, mask.shape[1], (a for s in samples for a in s.advantages)),
        },
        batch_size=[len(samples)],
    )
    if vision is not None:
        _show(batch, samples, vision)
    if (experts := routed_experts(samples, attention)) is not None:
        batch["routed_experts"] = experts
    return batch


def jagged(batch: TensorDict) -> TensorDict:
    """A copy of a padded batch in the layout that veRL's workers take (`input_ids` and `position_ids` without padding)."""
    made = left_right_2_no_padding(batch.clone())
    if batch["position_ids"].dim() == 3:  # veRL takes the 4 for the lengths where those of all rows are equal
        rows = zip(batch["position_ids"], batch["attention_mask"].bool(), strict=True)
        places = torch.cat([row[:, mask] for row, mask in rows], dim=-1)
        made["position_ids"] = torch.nested.nested_tensor_from_jagged(places, made["input_ids"].offsets(), jagged_dim=2)
    return made


def sequences(ids: Sequence[Sequence[int]], vision: Vision | None = None) -> TensorDict:
    """Whole sequences as a batch for inference: the first token of each is its prompt."""
    return padded([Sample(list(s), 1, [1] * (len(s) - 1), [0.0] * (len(s) - 1)) for s in ids], vision)


def _show(batch: TensorDict, samples: Sequence[Sample], vision: Vision) -> None:
    """Adds to a batch what a model that sees is given besides."""
    inputs = [vision.inputs(s) for s in samples]
    positions = torch.zeros(len(samples), 4, batch["input_ids"].shape[1], dtype=torch.int64)
    for row, s, shown, mask in zip(positions, samples, inputs, batch["attention_mask"], strict=True):
        row[:, mask.bool()] = vision.positions(s.ids, shown)
    batch["position_ids"] = positions
    tu.assign_non_tensor_stack(batch, "multi_modal_inputs", [shown or {} for shown in inputs])


def _painted(samples: Sequence[Sample], width: int, values: Iterator[float]) -> Tensor:
    """A value for each span of the batch, in its order, on each of the span's tokens, (B, width) float32."""
    painted = torch.zeros(len(samples), width)
    for row, s in zip(painted, samples, strict=True):
        for span, value in zip(s.spans, values, strict=False):
            row[span.start - s.prompt_len : span.end - s.prompt_len] = value
    return painted


def _pad(rows: Sequence[Sequence[int]] | Sequence[Sequence[float]], kind: type[np.generic], left: bool = False) -> Tensor:
    # torch takes a list in ten times as slowly as numpy does
    tensors = [torch.from_numpy(np.array(r, kind)) for r in rows]
    return torch.nn.utils.rnn.pad_sequence(tensors, batch_first=True, padding_side="left" if left else "right")


def _ones(lengths: Sequence[int]) -> Tensor:
    return (torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]).long()

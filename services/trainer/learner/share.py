"""Batches that can be cut among ranks: rows that train nothing make up what is missing to a multiple."""

from __future__ import annotations

from dataclasses import replace

from tensordict import TensorDict
from verl.utils import tensordict_utils as tu

from services.trainer.batch.samples import Sample

_LEARNED_FROM = ("response_mask", "loss_weights")


def evened(batch: TensorDict, parts: int) -> TensorDict:
    """A padded batch whose number of rows is a multiple: copies of its first rows follow, of which no token is trained."""
    size = len(batch)
    whole, more = tu.pad_to_divisor(batch, parts)
    if more:
        for name in _LEARNED_FROM:
            if name in whole:
                whole[name][size:] = 0
    return whole


def idle(sample: Sample) -> Sample:
    """A sample with the same tokens, of which none is trained."""
    return replace(sample, mask=[0] * len(sample.mask), spans=(), advantages=())

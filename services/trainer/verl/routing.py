"""Mixture-of-experts models learn on the experts that the engine chose ("R3"): the probabilities of a router are the learner's
own, which of them count is replayed.

veRL does this in its Megatron and VeOmni engines; here is the same for FSDP. Rounding makes two implementations choose
differently now and then, and a token that went through other experts has another log-prob.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from tensordict import TensorDict
from torch import Tensor, nn
from verl.workers.engine.fsdp.transformer_impl import FSDPEngineWithLMHead

from services.trainer.batch.samples import Sample
from shared.errors import FidelityError

FREE = -1
"""Stands for an expert where none is on record: the router then chooses by itself."""
_ROUTER = "TopKRouter"


def routed_experts(samples: Sequence[Sample], attention: Tensor) -> Tensor | None:
    """veRL's batch field `routed_experts` (B, L, layers, k) int64, `FREE` where nothing is on record; None if nowhere is.

    Args:
        samples: B of them.
        attention: mask of their tokens (B, L).

    Raises:
        FidelityError: a record is no array, or not of the same layers and experts a token as the others.
    """
    read = [_read(s) for s in samples]
    shapes = {found.shape[1:] for found in read if found is not None}
    if not shapes:
        return None
    if len(shapes) > 1:
        raise FidelityError(f"routed experts of one batch have the shapes {sorted(shapes)} a token; they are of one model")
    batch = torch.full((*attention.shape, *shapes.pop()), FREE)
    for row, found, mask in zip(batch, read, attention.bool(), strict=True):
        if found is not None:
            row[mask.nonzero()[: len(found), 0]] = found
    return batch


class ReplayingEngine(FSDPEngineWithLMHead):  # type: ignore[misc]  # veRL ships no types
    """veRL's FSDP engine, whose routers choose what `routed_experts` of a micro-batch says, where it says something."""

    _chosen: Tensor | None = None
    """(B, L, layers, k), or (tokens, layers, k) where the model gets rows without padding."""

    def initialize(self) -> None:
        """As the engine it is made from; its routers are told from then on."""
        super().initialize()
        routers = [m for m in self.module.modules() if type(m).__name__.endswith(_ROUTER)]
        for layer, router in enumerate(routers):
            router.register_forward_hook(self._replay(layer))

    def prepare_model_inputs(self, micro_batch: TensorDict) -> Any:
        """As the engine it is made from; notes what routers shall choose."""
        experts = micro_batch.get("routed_experts", None)
        if experts is None:
            self._chosen = None
        else:
            self._chosen = experts.values() if self.model_config.use_remove_padding else _padded(experts)
        return super().prepare_model_inputs(micro_batch)

    def _replay(self, layer: int) -> Callable[[nn.Module, Any, Any], Any]:
        def hook(router: nn.Module, _: Any, output: tuple[Tensor, Tensor, Tensor]) -> tuple[Tensor, Tensor, Tensor] | None:
            if self._chosen is None:
                return None
            logits, weights, own = output
            chosen = self._chosen[..., layer, :].reshape(own.shape)
            experts = torch.where(chosen == FREE, own, chosen)
            return logits, _weights(router, logits, experts).to(weights.dtype), experts

        return hook


def _padded(nested: Tensor) -> Tensor:
    """A jagged tensor (B, j, ...) with `FREE` after what each sequence has."""
    offsets: Tensor = nested.offsets()  # type: ignore[attr-defined]  # torch has no types for jagged tensors
    size = (len(nested), int(offsets.diff().max()), *nested.shape[2:])
    padded: Tensor = torch.nested.to_padded_tensor(nested, padding=FREE, output_size=size)
    return padded


def _weights(router: nn.Module, logits: Tensor, experts: Tensor) -> Tensor:
    """Weights of chosen experts, as routers of Qwen's families compute them for their own choice."""
    weights = logits.softmax(-1, dtype=torch.float).gather(-1, experts)
    return weights / weights.sum(-1, keepdim=True) if getattr(router, "norm_topk_prob", True) else weights


def _read(sample: Sample) -> Tensor | None:
    """Experts of a sample's first tokens (T, layers, k)."""
    if not sample.experts:
        return None
    try:
        found = np.load(io.BytesIO(sample.experts), allow_pickle=False)
    except (ValueError, EOFError, OSError) as e:
        raise FidelityError(f"the routed experts of a row cannot be read: {e}") from e
    if found.ndim != 3 or found.dtype.kind not in "ui" or not 0 < len(found) <= len(sample.ids):
        raise FidelityError(f"the routed experts of a row of {len(sample.ids)} tokens are {found.dtype} {found.shape}")
    return torch.from_numpy(found.astype(np.int64))

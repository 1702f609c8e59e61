"""Learning of low-rank adapters only (LoRA). The names are veRL's."""

from __future__ import annotations

from shared.config.base import Count, Section, Whole


class LoraConfig(Section, frozen=True, kw_only=True):
    """Adapters beside the model's own weights, which stay as they are.

    Attributes:
        lora_rank: of each adapter's two matrices; 0 trains all weights instead.
        lora_alpha: an adapter counts `lora_alpha / lora_rank` times.
        target_modules: how the names of the layers end that get one; empty for all linear layers but the output head.
    """

    lora_rank: Whole = 0
    lora_alpha: Count = 16
    target_modules: tuple[str, ...] = ()

"""Low-rank adapters (LoRA): veRL's settings for them, and a model that has some as plain weights.

veRL's own exports of merged weights are in bf16, or with one rank those of the model without adapters; here they are neither.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from peft.utils.save_and_load import get_peft_model_state_dict
from safetensors.torch import save_file
from torch import Tensor
from torch.distributed.tensor import DTensor
from verl.utils.fsdp_utils import merged_lora_context, normalize_peft_param_name

from shared.config import LoraConfig

_LAYER = re.compile(r"^base_model\.model\.(.*)\.(lora_[AB])\.weight$")
"""peft's name of an adapter's matrix."""


def fields(lora: LoraConfig) -> dict[str, Any]:
    """veRL's fields of a model."""
    targets = list(lora.target_modules) or "all-linear"
    return {"lora_rank": lora.lora_rank, "lora_alpha": lora.lora_alpha, "target_modules": targets}


def has_adapters(engine: Any) -> bool:
    """Whether an engine of veRL trains adapters."""
    return hasattr(engine.module, "peft_config")


def merged(engine: Any) -> dict[str, Tensor]:
    """All weights with the adapters added to them, under the names that they have without. All ranks call this."""
    with merged_lora_context(engine.module, backup_adapters=True):
        parts = normalize_peft_param_name(engine.module.state_dict())
        # With one rank the whole is the part, which is about to be restored.
        return {name: _whole(part).clone() for name, part in parts.items()}


def base(engine: Any) -> dict[str, Tensor]:
    """All weights without the adapters, under the same names. All ranks call this."""
    parts = normalize_peft_param_name(engine.module.state_dict())
    return {name: _whole(part).clone() for name, part in parts.items()}


def factors(engine: Any) -> dict[str, Tensor]:
    """The adapters as two matrices of each weight that has one, with what they count in the second. All ranks call this."""
    lora = engine.module.peft_config["default"]
    found = {}
    for name, part in get_peft_model_state_dict(engine.module, engine.module.state_dict()).items():
        weight, kind = _LAYER.sub(r"\1.weight", name), _LAYER.sub(r"\2", name)
        found[f"{weight}.{kind}"] = _whole(part) * (lora.lora_alpha / lora.r if kind == "lora_B" else 1)
    return found


def save_adapter(engine: Any, folder: Path, *, writes: bool) -> None:
    """Writes the adapters as peft does, for whoever loads them beside the base model. All ranks call this; one `writes`."""
    parts = get_peft_model_state_dict(engine.module, engine.module.state_dict())
    weights = {name: _whole(part) for name, part in parts.items()}
    if writes:
        folder.mkdir(parents=True, exist_ok=True)
        save_file(weights, folder / "adapter_model.safetensors", metadata={"format": "pt"})
        engine.module.peft_config["default"].save_pretrained(folder)


def _whole(part: Tensor) -> Tensor:
    whole = part.full_tensor() if isinstance(part, DTensor) else part
    return whole.detach().cpu().contiguous()

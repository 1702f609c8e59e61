"""A trained model as files: what an engine loads, and what transformers loads."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor
from verl.utils.model import get_hf_auto_model_class

from services.trainer.ports import Part
from services.trainer.verl import adapters

WEIGHTS = "model.safetensors"
ADAPTER = "adapter"
"""Beside the weights of a model that was trained by adapters: those alone."""
_NOT_COPIED = shutil.ignore_patterns("*.safetensors", "*.safetensors.index.json", "*.bin", "*.bin.index.json", "*.pt")


def export(engine: Any, file: Path, part: Part, *, writes: bool) -> None:
    """Writes weights of veRL's engine as safetensors, tied ones under each of their names.

    All ranks call this, since each has a part of every weight; the one that `writes` writes.
    """
    weights = adapters.factors(engine) if part == "adapters" else tensors(engine, part)
    if writes:
        _save(weights, file)


def tensors(engine: Any, part: Part = "whole") -> dict[str, Tensor]:
    """All weights of veRL's engine, tied ones under each of their names. All ranks call this."""
    weights = adapters.base(engine) if part == "base" else _weights(engine)
    return weights | {name: weights[source].clone() for name, source in _tied(engine).items()}


def save_model(engine: Any, begun_as: Path, folder: Path, *, writes: bool) -> None:
    """Writes a model folder: the engine's weights, all else from the folder of the model it began as. As `export`."""
    weights, tied = _weights(engine), _tied(engine)
    if adapters.has_adapters(engine):
        adapters.save_adapter(engine, folder / ADAPTER, writes=writes)
    if writes:
        shutil.copytree(begun_as, folder, ignore=_NOT_COPIED, dirs_exist_ok=True)
        _save({name: tensor for name, tensor in weights.items() if name not in tied}, folder / WEIGHTS)


def _weights(engine: Any) -> dict[str, Tensor]:
    if adapters.has_adapters(engine):
        return adapters.merged(engine)
    parameters, _ = engine.get_per_tensor_param()
    return {name: tensor.detach().cpu().contiguous() for name, tensor in parameters}


def _tied(engine: Any) -> dict[str, str]:
    """Names of weights that are another one's tensor -> the name of that one."""
    module = engine.module
    if not hasattr(module, "all_tied_weights_keys"):  # Megatron's own, which do not say it
        config = engine.model_config.hf_config
        with torch.device("meta"):
            module = get_hf_auto_model_class(config).from_config(config)
    return dict(module.all_tied_weights_keys)


def _save(weights: Mapping[str, Tensor], file: Path) -> None:
    """Writes through a temporary file, so that nobody reads half of it."""
    part = file.with_name(file.name + ".part")
    save_file(dict(weights), part, metadata={"format": "pt"})
    part.replace(file)

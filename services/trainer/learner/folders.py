"""A trained model as files: what an engine loads, and what transformers loads."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors.torch import save_file
from torch import Tensor

WEIGHTS = "model.safetensors"
_NOT_COPIED = shutil.ignore_patterns("*.safetensors", "*.safetensors.index.json", "*.bin", "*.bin.index.json", "*.pt")


def export(engine: Any, file: Path) -> None:
    """Writes all weights of veRL's engine as safetensors, tied ones under each of their names."""
    _save(tensors(engine), file)


def tensors(engine: Any) -> dict[str, Tensor]:
    """All weights of veRL's engine, tied ones under each of their names."""
    weights = _weights(engine)
    for name, source in _tied(engine).items():
        weights[name] = weights[source].clone()
    return weights


def save_model(engine: Any, begun_as: Path, folder: Path) -> None:
    """Writes a model folder: the engine's weights, all else from the folder of the model it began as."""
    shutil.copytree(begun_as, folder, ignore=_NOT_COPIED, dirs_exist_ok=True)
    weights = _weights(engine)
    for name in _tied(engine):
        weights.pop(name, None)
    _save(weights, folder / WEIGHTS)


def _weights(engine: Any) -> dict[str, Tensor]:
    parameters, _ = engine.get_per_tensor_param()
    return {name: tensor.detach().contiguous() for name, tensor in parameters}


def _tied(engine: Any) -> dict[str, str]:
    """Names of weights that are another one's tensor -> the name of that one."""
    return dict(engine.module.all_tied_weights_keys)


def _save(weights: Mapping[str, Tensor], file: Path) -> None:
    """Writes through a temporary file, so that nobody reads half of it."""
    part = file.with_name(file.name + ".part")
    save_file(dict(weights), part, metadata={"format": "pt"})
    part.replace(file)

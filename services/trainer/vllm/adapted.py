"""Weights with low-rank adapters added to them. Runs inside vLLM."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import torch
from safetensors import safe_open
from torch import Tensor

_DOWN, _UP = ".lora_A", ".lora_B"


def adapted(base: Path, adapters: Mapping[str, Tensor]) -> Iterator[tuple[str, Tensor]]:
    """All weights of a file, read one by one: `w` + `w.lora_B` @ `w.lora_A` where there are such adapters.

    Raises:
        ValueError: there are adapters of weights that the file does not have, or of other shapes; before any weight is read.
    """
    stems = {name.removesuffix(_DOWN).removesuffix(_UP) for name in adapters}
    if adapters.keys() != {stem + kind for stem in stems for kind in (_DOWN, _UP)}:
        raise ValueError("adapters come in pairs of lora_A and lora_B; nothing was loaded")
    with safe_open(base, "pt") as file:
        shapes = {name: file.get_slice(name).get_shape() for name in file.keys()}  # noqa: SIM118 - it is no dictionary
    for stem in stems:
        shape = [adapters[stem + _UP].shape[0], adapters[stem + _DOWN].shape[1]]
        if shapes.get(stem) != shape:
            raise ValueError(f"adapters of {stem} are for {shape}, the weight is {shapes.get(stem)}; nothing was loaded")
    return _read(base, adapters)


def _read(base: Path, adapters: Mapping[str, Tensor]) -> Iterator[tuple[str, Tensor]]:
    with safe_open(base, "pt") as file:
        for name in file.keys():  # noqa: SIM118
            weight = file.get_tensor(name)
            if name + _UP in adapters:
                change = adapters[name + _UP].float() @ adapters[name + _DOWN].float()
                weight = (weight.to(torch.float32) + change).to(weight.dtype)
            yield name, weight

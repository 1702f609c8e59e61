"""The weights of a checkpoint, put together from the parts that its processes wrote."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.distributed.tensor import DTensor, Shard

from shared.errors import ConfigError

_FIRST = "model_world_size_*_rank_0.pt"


def whole(folder: Path) -> dict[str, Tensor]:
    """All weights in a checkpoint of veRL's FSDP engine, whatever the number of its processes; of adapters, those alone.

    Raises:
        ConfigError: a part is missing.
    """
    first = sorted(folder.glob(_FIRST))
    if len(first) != 1:
        raise ConfigError(f"{folder}: {len(first)} files are named {_FIRST}; a checkpoint of veRL's FSDP engine has one")
    world = int(first[0].name.split("_")[3])
    parts = [_part(folder / f"model_world_size_{world}_rank_{rank}.pt") for rank in range(world)]
    return {name: _joined([part[name] for part in parts]) for name in parts[0]}


def _part(file: Path) -> dict[str, Any]:
    if not file.is_file():
        raise ConfigError(f"{file}: this part of the checkpoint is missing; those of all processes are needed")
    part: dict[str, Any] = torch.load(file, map_location="cpu", weights_only=False, mmap=True)
    return part


def _joined(parts: list[Any]) -> Tensor:
    """One tensor of its parts, which are in the order of ranks."""
    first = parts[0]
    if not isinstance(first, DTensor):
        tensor: Tensor = first
        return tensor
    ranks, shard = first.device_mesh.mesh.reshape(-1, first.device_mesh.mesh.shape[-1])[0], first.placements[-1]
    pieces = [parts[rank].to_local() for rank in ranks.tolist()]
    return torch.cat(pieces, dim=shard.dim) if isinstance(shard, Shard) else pieces[0]

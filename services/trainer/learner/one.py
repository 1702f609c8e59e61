"""veRL's worker, and what this project asks of the ranks of a learner besides."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor
from verl.single_controller.base.decorator import Dispatch, register
from verl.workers.engine_workers import TrainingWorker

from services.trainer.learner import folders
from services.trainer.learner.parts import whole
from services.trainer.ports import Part
from shared.errors import ConfigError


class OneWorker(TrainingWorker):  # type: ignore[misc]  # veRL ships no types
    """A rank's worker. All ranks call each method; files are written by the first."""

    @register(dispatch_mode=Dispatch.ONE_TO_ALL)  # type: ignore[untyped-decorator]
    def set_lr(self, lr: float) -> None:
        """Sets the learning rate, whatever the schedule says."""
        for group in self.engine.optimizer.param_groups:
            group["lr"] = lr

    @register(dispatch_mode=Dispatch.ONE_TO_ALL)  # type: ignore[untyped-decorator]
    def export(self, file: Path, part: Part = "whole") -> None:
        """Writes weights as safetensors, tied ones under each of their names."""
        folders.export(self.engine, file, part, writes=self.rank == 0)

    @register(dispatch_mode=Dispatch.ONE_TO_ALL)  # type: ignore[untyped-decorator]
    def tensors(self) -> dict[str, Tensor]:
        """All weights, tied ones under each of their names; of the ranks, the first has them."""
        found = folders.tensors(self.engine)
        return found if self.rank == 0 else {}

    @register(dispatch_mode=Dispatch.ONE_TO_ALL)  # type: ignore[untyped-decorator]
    def save_model(self, begun_as: Path, folder: Path) -> None:
        """Writes a model folder: weights of now, all else from the folder of the model it began as."""
        folders.save_model(self.engine, begun_as, folder, writes=self.rank == 0)

    def load_weights(self, folder: Path) -> None:
        """Takes the weights of a checkpoint, and nothing else of it. However many processes wrote it, this one has to be alone.

        Raises:
            ConfigError: it is of another model, or of other adapters; or the model is Megatron's.
        """
        if not isinstance(self.engine.module, torch.nn.Module):
            raise ConfigError("weights of a checkpoint alone are taken under fsdp2 only: set trainer.parallel.strategy to it")
        own, found = self.engine.module.state_dict(), whole(folder)
        adapters = {name for name in own if ".lora_" in name}
        if found.keys() != (adapters or own.keys()) or any(own[name].shape != found[name].shape for name in found):
            raise ConfigError(f"{folder}: this checkpoint is not of the model that the run is configured with")
        for name, tensor in found.items():
            own[name].to_local().copy_(tensor)

"""veRL's worker group on Ray as one worker, with the methods of `services.trainer.ranks.group.RankGroup`.

Placing, meeting, cutting and collecting are veRL's: `RayResourcePool`, `RayWorkerGroup`, its worker's dispatch.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from services.trainer.gpu.nodes import Nodes  # before all else of veRL: it sets the platform

# isort: split
import ray
from ray.exceptions import RayError
from tensordict import TensorDict
from torch import Tensor
from verl.single_controller.ray import RayClassWithInitArgs, RayWorkerGroup

from services.trainer.ports import LearnerSettings, Part
from shared.errors import ForgeError

_CLOSED = "the learner's processes were ended"


class RayGroup:
    """Processes on the nodes of a Ray cluster.

    One that dies or fails takes the others with it, since they would wait for it for ever: every call from then on raises.
    Files are written by the first process and read by all, so that their folders have to be shared by the nodes.

    Args:
        nodes: with room for them.
        model: folder.
        settings: of the learner.
        trains: or they only say what the model makes of a batch.

    Raises:
        ForgeError: one of them did not come up.
    """

    def __init__(self, nodes: Nodes, model: Path, settings: LearnerSettings, *, trains: bool) -> None:
        from services.trainer.gpu.worker import NodeWorker

        self._nodes = nodes
        self._gone = ""
        made = RayClassWithInitArgs(ray.remote(NodeWorker), model.resolve(), settings, trains)
        try:
            self._group: Any = RayWorkerGroup(
                resource_pool=nodes.pool, ray_cls_with_init=made, device_name=settings.parallel.device,
                worker_env=nodes.environment,
            )  # fmt: skip
            ray.get([worker.__ray_ready__.remote() for worker in self._group.workers])
        except RayError as e:
            raise self._failed("start", e) from e

    def infer_batch(self, batch: TensorDict) -> TensorDict:
        """As a worker's; the number of rows must be a multiple of the parts that a batch is cut into."""
        return self._cut("infer_batch", batch)

    def train_batch(self, batch: TensorDict) -> TensorDict:
        """As a worker's; the number of rows must be a multiple of the parts that a batch is cut into."""
        return self._cut("train_batch", batch)

    def set_loss_fn(self, loss: Callable[..., Any]) -> None:
        """As a worker's."""
        self._call("set_loss_fn", loss)

    def set_lr(self, lr: float) -> None:
        """As a worker's."""
        self._call("set_lr", lr)

    def export(self, file: Path, part: Part = "whole") -> None:
        """As a worker's."""
        self._call("export", file.resolve(), part)

    def tensors(self) -> dict[str, Tensor]:
        """As a worker's."""
        found: dict[str, Tensor] = self._call("tensors")[0]
        return found

    def save_model(self, begun_as: Path, folder: Path) -> None:
        """As a worker's."""
        self._call("save_model", begun_as.resolve(), folder.resolve())

    def save_checkpoint(self, folder: str, **options: Any) -> None:
        """As a worker's: each writes its part."""
        self._call("save_checkpoint", folder, **options)

    def load_checkpoint(self, folder: str, **options: Any) -> None:
        """As a worker's: each reads its part, so there must be as many as there were."""
        self._call("load_checkpoint", folder, **options)

    def close(self) -> None:
        """Ends the processes, and those that share their room."""
        self._gone = self._gone or _CLOSED
        self._nodes.close()

    def _cut(self, name: str, batch: TensorDict) -> TensorDict:
        found: TensorDict = self._call(name, batch, later=True)
        return found

    def _call(self, name: str, *arguments: Any, later: bool = False, **options: Any) -> Any:
        """Has veRL's group call a method. `later`: it gives a promise."""
        if self._gone:
            raise ForgeError(self._gone)
        try:
            found = getattr(self._group, name)(*arguments, **options)
            return found.get() if later else found
        except RayError as e:
            raise self._failed(name, e) from e

    def _failed(self, name: str, error: Exception) -> ForgeError:
        self._gone = f"the learner's processes on Ray failed in {name}: {error}"
        self._nodes.close()
        return ForgeError(self._gone)

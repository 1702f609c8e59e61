"""Weights from GPU to GPU, by vLLM's own NCCL transfer: the trainer's side of it drives the engine's.

It needs vLLM beside the trainer, and a learner that runs as one process. It was never run: there was no GPU.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from vllm.distributed.weight_transfer.base import ParamMeta, WeightSource
from vllm.distributed.weight_transfer.clients import HTTPVLLMWeightSyncClient
from vllm.distributed.weight_transfer.nccl_engine import NCCLTrainerInitInfo, NCCLTrainerWeightTransferEngine

from services.trainer.ports import Learner
from services.trainer.thread import LearnerThread
from services.trainer.weights.fleet import Replica
from shared.config import PushConfig
from shared.errors import EngineError


class LearnerSource(WeightSource):  # type: ignore[misc]  # vLLM is not followed by the type checker
    """A learner's weights, as vLLM's trainer side takes them: on the GPU, in the order in which they are announced."""

    def __init__(self, learner: Learner) -> None:
        self._tensors = dict(learner.tensors())

    def metadata(self) -> list[Any]:
        """Names, types and shapes."""
        return [ParamMeta(name, tensor.dtype, tuple(tensor.shape)) for name, tensor in self._tensors.items()]

    def __iter__(self) -> Iterator[tuple[str, torch.Tensor]]:
        for name, tensor in self._tensors.items():
            yield name, tensor.to(torch.accelerator.current_accelerator())


class NcclTransport:
    """Weights over NCCL. What was taken is what the learner has now, so that nothing can be sent again later.

    Args:
        config: of pushes.
        thread: of the learner.
    """

    keeps = False

    def __init__(self, config: PushConfig, thread: LearnerThread) -> None:
        self._config = config
        self._thread = thread
        self._source: LearnerSource | None = None
        self._version = 0

    async def take(self, learner: Learner, version: int) -> str:
        self._source = await self._thread.run(LearnerSource, learner)
        self._version = version
        return ""

    async def send(self, replica: Replica) -> None:
        if self._source is None:
            raise EngineError("there are no weights to send yet")
        info = init_info(self._config, replica.number, await replica.engine.world_size())
        async with replica.engine.paused():
            await self._thread.run(_send, info, replica.address, self._source)
            await replica.engine.stamp(self._version)


def init_info(config: PushConfig, number: int, workers: int) -> Any:
    """Where an engine and the trainer meet: every engine is a group of its own, so that one can be replaced alone.

    Args:
        config: of pushes.
        number: of the engine.
        workers: its processes with a GPU.
    """
    return NCCLTrainerInitInfo(
        rank=0, master_address=config.nccl_host, master_port=config.nccl_port + number, world_size=1 + workers
    )


def _send(info: Any, address: str, source: LearnerSource) -> None:
    try:
        engine = NCCLTrainerWeightTransferEngine.trainer_init(info, client=HTTPVLLMWeightSyncClient(address), source=source)
        try:
            engine.send_weights()
        finally:
            engine.shutdown()
    except (RuntimeError, OSError) as e:  # NCCL's and HTTP's errors are of these kinds
        raise EngineError(f"weights could not be sent to {address} over NCCL: {e}") from e

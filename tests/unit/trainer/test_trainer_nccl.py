"""What of the NCCL transport runs without a GPU: where engine and trainer meet, and what is announced. Nothing is sent."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any, cast

import pytest

from services.trainer.ports import Learner
from services.trainer.thread import LearnerThread
from services.trainer.weights.client import VllmEngine
from services.trainer.weights.fleet import Replica
from shared.config import PushConfig
from shared.errors import EngineError
from tests.engine.scripted import ScriptedEngine

pytestmark = [pytest.mark.real, pytest.mark.slow, pytest.mark.filterwarnings("ignore")]


class Tensors:
    """A learner with two weights."""

    def tensors(self) -> dict[str, Any]:
        import torch

        return {"a": torch.ones(2, 3), "b": torch.zeros(4, dtype=torch.bfloat16)}


def test_every_engine_is_a_group_of_its_own_at_a_port_of_its_own() -> None:
    from vllm.distributed.weight_transfer.nccl_common import NCCLWeightTransferInitInfo, worker_init_payload

    from services.trainer.weights.nccl import init_info

    config = PushConfig(transport="nccl", nccl_host="10.0.0.1", nccl_port=30000)
    first, third = init_info(config, 0, 8), init_info(config, 2, 1)
    assert (first.master_address, first.master_port, first.world_size, first.is_sender) == ("10.0.0.1", 30000, 9, True)
    assert (third.master_port, third.world_size) == (30002, 2)
    shared = {name: getattr(first, name) for name in ("master_address", "master_port", "world_size", "packed")}
    payload = worker_init_payload(NCCLWeightTransferInitInfo(rank_offset=1, **shared))  # vLLM takes what it is told
    assert payload["master_port"] == 30000


def test_weights_are_announced_as_vllm_wants_them() -> None:
    from vllm.distributed.weight_transfer.nccl_engine import NCCLWeightTransferUpdateInfo

    from services.trainer.weights.nccl import LearnerSource

    metadata = LearnerSource(cast(Learner, Tensors())).metadata()
    told = NCCLWeightTransferUpdateInfo(
        names=[m.name for m in metadata],
        dtype_names=[str(m.dtype).removeprefix("torch.") for m in metadata],
        shapes=[list(m.shape) for m in metadata],
    )
    assert asdict(told) == {"names": ["a", "b"], "dtype_names": ["float32", "bfloat16"], "shapes": [[2, 3], [4]]}


async def test_without_a_gpu_it_fails_as_a_push_does_and_generation_goes_on(
    scripted_engine: ScriptedEngine, tmp_path: Path
) -> None:
    from services.trainer.weights.nccl import NcclTransport

    thread = LearnerThread()
    transport = NcclTransport(PushConfig(transport="nccl", nccl_port=30123), thread)
    replica = Replica(0, scripted_engine.url, VllmEngine(scripted_engine.url, "policy"))
    try:
        with pytest.raises(EngineError, match="no weights to send yet"):
            await transport.send(replica)
        assert await transport.take(cast(Learner, Tensors()), 1) == ""
        with pytest.raises(EngineError):  # the scripted engine knows no /get_world_size
            await transport.send(replica)
        assert scripted_engine.weights.serving.is_set()
    finally:
        await replica.engine.close()
        thread.close()

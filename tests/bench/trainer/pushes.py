"""New weights into a real vLLM that serves the model."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from services.dev.servers import free_port
from services.trainer.learner import VerlLearner
from services.trainer.vllm.command import vllm_command
from services.trainer.weights.client import VllmEngine
from services.trainer.weights.pushed import checksum
from services.trainer.weights.serving import make_serving_copy
from shared.config import EngineConfig
from tests.bench.processes import Child
from tests.bench.trainer.report import Push

_START_S = 300.0


@asynccontextmanager
async def serving(model: Path, folder: Path) -> AsyncIterator[VllmEngine]:
    """A vLLM that serves a model folder, ready to be pushed to.

    Raises:
        EngineError: it did not come up; `vllm.log` in the folder says why.
    """
    make_serving_copy(model, folder / "serving")
    (folder / "weights").mkdir()
    config, port = EngineConfig(max_model_len=512, kv_cache_mb=64, max_num_seqs=8), free_port()
    argv, env = vllm_command(config, port, str(folder / "serving"), folder / "weights")
    engine = VllmEngine(f"http://127.0.0.1:{port}", config.served_name)
    with Child(argv, folder / "vllm.log", env):
        try:
            await engine.wait_healthy(_START_S)
            await engine.open_transfer()
            yield engine
        finally:
            await engine.close()


async def push(learner: VerlLearner, engine: VllmEngine, file: Path, version: int) -> Push:
    """One push through a file, which must be in the folder that weights may come from."""
    began = time.monotonic()
    learner.export(file)
    written = time.monotonic()
    await engine.load(file, checksum(file), version)
    return Push(bytes=file.stat().st_size, export_s=written - began, load_s=time.monotonic() - written)

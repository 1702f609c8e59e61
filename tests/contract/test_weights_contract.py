"""New weights reach a real vLLM without a restart, and the probe tells when they do not."""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import AsyncIterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import aiohttp
import pytest
import torch
from safetensors.torch import load_file, save_file

from services.dev.scratch import scratch
from services.dev.servers import free_port
from services.trainer.batch.samples import Sample
from services.trainer.ports import LearnerSettings
from services.trainer.vllm.command import vllm_command
from services.trainer.weights.client import VllmEngine
from services.trainer.weights.pushed import checksum
from services.trainer.weights.pushing import largest_gap
from services.trainer.weights.serving import make_serving_copy
from shared.config import EngineConfig, LoraConfig, OptimConfig, TrainerConfig
from shared.errors import EngineError

if TYPE_CHECKING:
    from services.trainer.learner import VerlLearner

pytestmark = [
    pytest.mark.real,
    pytest.mark.slow,
    pytest.mark.timeout(400),
    pytest.mark.filterwarnings("ignore"),
    pytest.mark.asyncio(loop_scope="module"),
]

EXACT = 1e-4
"""Nats that fp32 log-probs of vLLM and veRL may differ by."""
WRONG = TrainerConfig().probe_gap
"""From here on a probe fails."""
PROBE = [[random.Random(seed).randrange(256) for _ in range(32)] for seed in range(3)]


class Pushed:
    """A learner, the vLLM that serves it, and the folder that weights are pushed through."""

    def __init__(self, learner: VerlLearner, engine: VllmEngine, url: str, folder: Path) -> None:
        self.learner = learner
        self.engine = engine
        self.url = url
        self.folder = folder
        self.version = 0

    async def gap(self) -> float:
        """Largest difference of log-probs, engine and learner (nats)."""
        return largest_gap(self.learner.log_probs(PROBE), await self.engine.log_probs(PROBE))

    async def push(self, without: Sequence[str] = ()) -> None:
        """Pushes all weights but those named."""
        self.version += 1
        file = self.folder / f"push-{self.version}.safetensors"
        self.learner.export(file)
        weights = load_file(file)
        save_file({name: w for name, w in weights.items() if name not in without}, file)
        await self.engine.load(file, checksum(file), self.version)

    def learn(self) -> None:
        """Changes every weight by a few steps."""
        for _ in range(20):
            self.learner.sft_step([Sample(ids, 1, [1] * 31, [0.0] * 31) for ids in PROBE], 3e-3)


@pytest.fixture(scope="module")
async def pushed(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Pushed]:
    from services.trainer.learner import VerlLearner
    from tests.engine.tied_model import make_tied_model

    folder = tmp_path_factory.mktemp("push")
    model = make_tied_model(folder / "model")
    make_serving_copy(model, folder / "serving")
    (folder / "weights").mkdir()
    port = free_port()
    config = EngineConfig(max_model_len=512, kv_cache_mb=64, max_num_seqs=8)
    argv, env = vllm_command(config, port, str(folder / "serving"), folder / "weights")
    ends = ExitStack()
    mine = os.environ | env | {"TMPDIR": str(ends.enter_context(scratch()))}
    with (folder / "vllm.log").open("w") as log:
        process = await asyncio.create_subprocess_exec(*argv, env=mine, stdout=log, stderr=log)
    engine = VllmEngine(f"http://127.0.0.1:{port}", config.served_name)
    try:
        await engine.wait_healthy(300)
        await engine.open_transfer()
        yield Pushed(
            VerlLearner(model, LearnerSettings(optim=OptimConfig(lr=1e-3))),
            engine,
            f"http://127.0.0.1:{port}",
            folder / "weights",
        )
    finally:
        await engine.close()
        process.terminate()
        await process.wait()
        ends.close()


async def test_a_tied_model_is_served_as_the_learner_has_it(pushed: Pushed) -> None:
    assert await pushed.gap() < EXACT
    assert await pushed.engine.version() == "default"
    pushed.learn()
    assert await pushed.gap() > WRONG
    await pushed.push()
    assert await pushed.gap() < EXACT
    assert await pushed.engine.version() == str(pushed.version)


async def test_the_probe_sees_a_head_that_was_not_pushed(pushed: Pushed) -> None:
    pushed.learn()
    await pushed.push(without=["lm_head.weight"])
    assert await pushed.gap() > WRONG
    await pushed.push()
    assert await pushed.gap() < EXACT


async def test_what_adapters_learned_is_served(pushed: Pushed) -> None:
    from services.trainer.learner import VerlLearner

    folder, learner = pushed.folder.parent, pushed.learner
    pushed.learner = VerlLearner(folder / "model", LearnerSettings(lora=LoraConfig(lora_rank=4, lora_alpha=32)))
    pushed.learn()
    await pushed.push()
    assert await pushed.gap() < EXACT
    plain = VerlLearner(folder / "model", LearnerSettings())
    assert largest_gap(plain.log_probs(PROBE), pushed.learner.log_probs(PROBE)) > WRONG
    pushed.learner = learner


async def test_adapters_alone_are_pushed_and_added_to_what_was_written_once(pushed: Pushed) -> None:
    from services.trainer.learner import VerlLearner

    folder, first = pushed.folder.parent, pushed.learner
    pushed.learner = VerlLearner(folder / "model", LearnerSettings(lora=LoraConfig(lora_rank=4, lora_alpha=32)))
    base = pushed.folder / "base.safetensors"
    pushed.learner.export(base, "base")
    for _ in range(2):  # what came before them is not what the second ones are added to
        pushed.learn()
        pushed.version += 1
        file = pushed.folder / f"adapters-{pushed.version}.safetensors"
        pushed.learner.export(file, "adapters")
        await pushed.engine.load(file, checksum(file), pushed.version, (base, checksum(base)))
        assert await pushed.gap() < EXACT
    assert file.stat().st_size < base.stat().st_size / 4
    assert await pushed.engine.version() == str(pushed.version)
    for kinds in ("A", "AB"):  # half of a pair; of other shapes than the weight
        save_file({f"model.norm.weight.lora_{kind}": torch.ones(1, 1) for kind in kinds}, file)
        with pytest.raises(EngineError, match="/update_weights"):
            await pushed.engine.load(file, checksum(file), 99, (base, checksum(base)))
    with pytest.raises(EngineError, match="/update_weights"):
        await pushed.engine.load(file, checksum(file), 99, (base, checksum(file)))
    assert await pushed.gap() < EXACT
    pushed.learner = first
    await pushed.push()
    assert await pushed.gap() < EXACT


async def test_only_files_under_the_root_are_loaded_and_generation_goes_on(pushed: Pushed) -> None:
    await pushed.push()
    outside, link = pushed.folder.parent / "outside.safetensors", pushed.folder / "link.safetensors"
    pushed.learner.export(outside)
    link.symlink_to(outside)
    (pushed.folder / "garbage.safetensors").write_bytes(b"x" * 100)
    for file in (outside, link, pushed.folder / "none.safetensors", pushed.folder / "garbage.safetensors"):
        with pytest.raises(EngineError, match="/update_weights"):
            await pushed.engine.load(file, checksum(file) if file.exists() else "", 99)
    whole = pushed.folder / "whole.safetensors"
    pushed.learner.export(whole)
    with pytest.raises(EngineError, match="/update_weights"):
        await pushed.engine.load(whole, checksum(outside)[:-1], 99)
    assert await pushed.gap() < EXACT
    assert await pushed.engine.version() == str(pushed.version)


async def test_sampled_log_probs_are_of_the_distribution_at_the_temperature(pushed: Pushed) -> None:
    await pushed.push()
    before = await pushed.engine.generated_tokens()
    body = {
        "model": "policy", "messages": [{"role": "user", "content": "hi"}], "temperature": 0.5, "max_tokens": 16, "seed": 1,
        "logprobs": True, "return_token_ids": True,
    }  # fmt: skip
    async with aiohttp.ClientSession() as http, http.post(f"{pushed.url}/v1/chat/completions", json=body) as response:
        answer = await response.json()
    choice, prompt = answer["choices"][0], answer["prompt_token_ids"]
    logprobs = [token["logprob"] for token in choice["logprobs"]["content"]]
    assert await pushed.engine.generated_tokens() - before == len(logprobs) == len(choice["token_ids"])
    from services.trainer.learner import VerlLearner

    pushed.learner.save_model(pushed.folder / "now")
    cold = VerlLearner(pushed.folder / "now", LearnerSettings(optim=OptimConfig(lr=1e-3), temperature=0.5))
    sample = Sample(prompt + choice["token_ids"], len(prompt), [1] * len(logprobs), logprobs)
    assert max(cold.update([sample]).logprob_gaps) < EXACT

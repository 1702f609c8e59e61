"""The client of vLLM's control routes, against the scripted engine."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from services.trainer.weights.client import VllmEngine
from shared.errors import EngineError
from tests.engine import bytes_tokenizer as tokenizer
from tests.engine.scripted import ScriptedEngine


@pytest.fixture
async def engine(scripted_engine: ScriptedEngine) -> AsyncIterator[VllmEngine]:
    client = VllmEngine(scripted_engine.url, "policy")
    yield client
    await client.close()


async def test_a_version_is_loaded_while_generation_stands_still(scripted_engine: ScriptedEngine, engine: VllmEngine) -> None:
    await engine.open_transfer()
    await engine.load(Path("/w/a.safetensors"), "5ea1", 3)
    assert scripted_engine.weights.loaded == [{"path": "/w/a.safetensors", "sha256": "5ea1"}]
    assert await engine.version() == "3"
    assert scripted_engine.weights.serving.is_set()


async def test_adapters_are_loaded_with_what_they_are_added_to(scripted_engine: ScriptedEngine, engine: VllmEngine) -> None:
    await engine.open_transfer()
    await engine.load(Path("/w/a.safetensors"), "5ea1", 3, (Path("/w/base.safetensors"), "ba5e"))
    assert scripted_engine.weights.loaded == [
        {"path": "/w/a.safetensors", "sha256": "5ea1", "base": "/w/base.safetensors", "base_sha256": "ba5e"}
    ]


async def test_generation_goes_on_after_a_failed_load(scripted_engine: ScriptedEngine, engine: VllmEngine) -> None:
    with pytest.raises(EngineError, match="answered 500 to /start_weight_update"):
        await engine.load(Path("/w"), "", 1)
    assert scripted_engine.weights.serving.is_set()


async def test_an_update_that_a_dead_trainer_left_is_ended(scripted_engine: ScriptedEngine, engine: VllmEngine) -> None:
    scripted_engine.weights.serving.clear()
    scripted_engine.weights.updating = True
    await engine.open_transfer()
    await engine.load(Path("/w"), "", 1)
    assert scripted_engine.weights.serving.is_set()


async def test_log_probs_are_of_every_token_after_the_first(engine: VllmEngine) -> None:
    ids = [[1, 2, 3], [4, 5, 6, 7]]
    assert await engine.log_probs(ids) == [[tokenizer.logprob(s, i) for i in range(1, len(s))] for s in ids]


async def test_sampled_tokens_are_counted_by_the_engine(scripted_engine: ScriptedEngine, engine: VllmEngine) -> None:
    scripted_engine.generated = 41
    assert await engine.generated_tokens() == 41


async def test_an_engine_that_is_not_there_is_named() -> None:
    engine = VllmEngine("http://127.0.0.1:9", "policy")
    with pytest.raises(EngineError, match=r"127\.0\.0\.1:9 did not answer /weight_info"):
        await engine.version()
    with pytest.raises(EngineError, match="not healthy after 0 s"):
        await engine.wait_healthy(0)
    await engine.close()


async def test_a_server_that_is_no_vllm_is_told_from_one(scripted_engine: ScriptedEngine) -> None:
    engine = VllmEngine(scripted_engine.url + "/v1/models?", "policy")  # answers 200 to anything
    with pytest.raises(EngineError, match="unknown form"):
        await engine.version()
    with pytest.raises(EngineError, match="has no metric vllm:generation_tokens_total"):
        await engine.generated_tokens()
    await engine.close()

"""What is refused before a process is started."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from services.dev.preflight import check_capacity, check_teacher, check_trainable
from shared.config import (
    CapacityConfig,
    Config,
    EngineConfig,
    OrchestratorConfig,
    ParallelConfig,
    ProxyConfig,
    StoreConfig,
    TrainerConfig,
    resolve,
)
from shared.errors import ConfigError


def config(**engine: Any) -> Config:
    return Config(engine=EngineConfig(**engine), proxy=ProxyConfig(mode="teacher"))


def test_what_cannot_be_trained_is_refused_before_anything_starts() -> None:
    check_trainable(Config())
    with pytest.raises(ConfigError, match="openforge eval CONFIG --tasks"):
        check_trainable(config())
    with pytest.raises(ConfigError, match=r"set trainer\.actor\.ppo_max_token_len_per_gpu = 32768 to as many or more"):
        check_trainable(Config(engine=EngineConfig(max_model_len=40000)))
    with pytest.raises(ConfigError, match="megatron needs GPUs"):
        check_trainable(Config(trainer=TrainerConfig(parallel=ParallelConfig(strategy="megatron"))))


def test_a_teacher_needs_an_address_and_its_key(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match=r"engine\.url"):
        check_teacher(config(model="m"))
    monkeypatch.delenv("TEACHER_KEY", raising=False)
    with pytest.raises(ConfigError, match="TEACHER_KEY is not set"):
        check_teacher(config(url="http://x", key_env="TEACHER_KEY"))
    monkeypatch.setenv("TEACHER_KEY", "k3y")
    check_teacher(config(url="http://x", key_env="TEACHER_KEY"))
    check_teacher(config(url="http://x"))


def test_a_pool_needs_a_server_where_its_runs_meet() -> None:
    capacity = CapacityConfig(pool="node-7", size=8)
    alone = Config(orchestrator=OrchestratorConfig(capacity=capacity))
    with pytest.raises(ConfigError, match=r"orchestrator\.capacity\.url"):
        check_capacity(alone)
    check_capacity(Config())
    check_capacity(msgspec.structs.replace(alone, store=StoreConfig(url="redis://x")))
    check_capacity(Config(orchestrator=OrchestratorConfig(capacity=msgspec.structs.replace(capacity, url="redis://x"))))


def test_a_pool_needs_a_size() -> None:
    with pytest.raises(ConfigError, match="needs a size"):
        resolve(None, ["orchestrator.capacity.pool=node-7"], env={})

"""What is refused before a process is started."""

from __future__ import annotations

from typing import Any

import pytest

from services.dev.preflight import check_teacher, check_trainable
from shared.config import Config, EngineConfig, ProxyConfig
from shared.errors import ConfigError


def config(**engine: Any) -> Config:
    return Config(engine=EngineConfig(**engine), proxy=ProxyConfig(mode="teacher"))


def test_a_teacher_is_not_trained_on() -> None:
    check_trainable(Config())
    with pytest.raises(ConfigError, match="openforge rollout"):
        check_trainable(config())


def test_a_teacher_needs_an_address_and_its_key(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match=r"engine\.url"):
        check_teacher(config(model="m"))
    monkeypatch.delenv("TEACHER_KEY", raising=False)
    with pytest.raises(ConfigError, match="TEACHER_KEY is not set"):
        check_teacher(config(url="http://x", key_env="TEACHER_KEY"))
    monkeypatch.setenv("TEACHER_KEY", "k3y")
    check_teacher(config(url="http://x", key_env="TEACHER_KEY"))
    check_teacher(config(url="http://x"))

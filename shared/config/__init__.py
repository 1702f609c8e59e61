"""Configuration: `model.py` says what exists, `resolve.py` finds each value and remembers where it came from."""

from shared.config.model import (
    BusConfig,
    CollectorConfig,
    Config,
    EngineConfig,
    OrchestratorConfig,
    ProxyConfig,
    RunConfig,
    StoreConfig,
    SynthConfig,
    TasksConfig,
    TrainerConfig,
    WarmStartConfig,
)
from shared.config.resolve import Resolved, load_config, resolve

__all__ = [
    "BusConfig", "CollectorConfig", "Config", "EngineConfig", "OrchestratorConfig", "ProxyConfig", "Resolved", "RunConfig",
    "StoreConfig", "SynthConfig", "TasksConfig", "TrainerConfig", "WarmStartConfig", "load_config", "resolve",
]  # fmt: skip

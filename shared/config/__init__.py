"""Configuration: `model.py` says what exists, `resolve.py` finds each value and remembers where it came from."""

from shared.config.actor import ActorConfig, PolicyLossConfig
from shared.config.algorithm import AlgorithmConfig, RolloutCorrectionConfig
from shared.config.endpoints import EndpointConfig, ModelsConfig, Role
from shared.config.lora import LoraConfig
from shared.config.model import Config, ServiceName
from shared.config.optim import OptimConfig
from shared.config.pace import PaceConfig
from shared.config.parallel import ParallelConfig
from shared.config.push import PushConfig
from shared.config.resolve import Resolved, load_config, resolve
from shared.config.resume import ResumeConfig
from shared.config.rollouts import OrchestratorConfig, ProxyConfig, TasksConfig
from shared.config.sandboxes import AutoConfig, DockerConfig, KubernetesConfig, ResourcesConfig, StagesConfig
from shared.config.servers import BusConfig, EngineConfig, RunConfig, StoreConfig
from shared.config.sharing import CapacityConfig
from shared.config.synth import BudgetConfig, GatesConfig, SynthConfig, TesterConfig
from shared.config.tls import TlsConfig
from shared.config.traces import TracesConfig
from shared.config.training import CollectorConfig, TrainerConfig
from shared.config.warm_start import WarmStartConfig
from shared.config.watching import LogConfig, MetricsConfig

__all__ = [
    "ActorConfig", "AlgorithmConfig", "AutoConfig", "BudgetConfig", "BusConfig", "CapacityConfig", "CollectorConfig",
    "Config", "DockerConfig", "EndpointConfig", "EngineConfig", "GatesConfig", "KubernetesConfig", "LogConfig",
    "LoraConfig", "MetricsConfig", "ModelsConfig", "OptimConfig", "OrchestratorConfig", "PaceConfig", "ParallelConfig",
    "PolicyLossConfig", "ProxyConfig", "PushConfig", "Resolved", "ResourcesConfig", "ResumeConfig", "Role",
    "RolloutCorrectionConfig", "RunConfig", "ServiceName", "StagesConfig", "StoreConfig", "SynthConfig", "TasksConfig",
    "TesterConfig", "TlsConfig", "TracesConfig", "TrainerConfig", "WarmStartConfig", "load_config", "resolve",
]  # fmt: skip

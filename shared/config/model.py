"""Every setting, a section a service. Unknown keys are refused; the field docs are what `openforge check` prints.

Relative paths are relative to the folder of the file that names them. Secrets never stand here: only the name of the
environment variable that holds them, or of the folder with the key files.
"""

from __future__ import annotations

from typing import Literal

from shared.config.base import Section
from shared.config.rollouts import OrchestratorConfig, ProxyConfig, TasksConfig
from shared.config.servers import BusConfig, EngineConfig, RunConfig, StoreConfig
from shared.config.synth import SynthConfig
from shared.config.traces import TracesConfig
from shared.config.training import CollectorConfig, TrainerConfig
from shared.config.watching import LogConfig, MetricsConfig

ServiceName = Literal["proxy", "orchestrator", "collector", "trainer", "synth"]


class Config(Section, frozen=True, kw_only=True):
    """The whole file."""

    run: RunConfig = RunConfig()
    bus: BusConfig = BusConfig()
    store: StoreConfig = StoreConfig()
    engine: EngineConfig = EngineConfig()
    proxy: ProxyConfig = ProxyConfig()
    orchestrator: OrchestratorConfig = OrchestratorConfig()
    collector: CollectorConfig = CollectorConfig()
    trainer: TrainerConfig = TrainerConfig()
    tasks: TasksConfig = TasksConfig()
    synth: SynthConfig = SynthConfig()
    metrics: MetricsConfig = MetricsConfig()
    log: LogConfig = LogConfig()
    traces: TracesConfig = TracesConfig()


PATHS: tuple[tuple[str, ...], ...] = (
    ("run", "root"), ("bus", "keys"), ("bus", "tls", "ca"), ("bus", "tls", "cert"), ("bus", "tls", "key"),
    ("store", "keys"), ("store", "tls", "ca"), ("store", "tls", "cert"), ("store", "tls", "key"), ("engine", "model"),
    ("orchestrator", "work_root"), ("orchestrator", "harness_dir"), ("orchestrator", "capacity", "keys"),
    ("orchestrator", "kubernetes", "kubeconfig"), ("proxy", "socket"),
    ("tasks", "train"), ("tasks", "heldout"), ("trainer", "warm_start", "rows"), ("trainer", "warm_start", "cache"),
    ("synth", "to"), ("synth", "gates", "heldout"), ("synth", "gates", "pool"),
    ("synth", "models", "seeds"), ("synth", "models", "prompts"), ("synth", "models", "cache"),
)  # fmt: skip
"""Values that are paths, or lists of them, made absolute against the folder of the file (or the working
folder, for --set and environment)."""

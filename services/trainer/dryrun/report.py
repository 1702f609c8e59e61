"""All of the dry run, as lines for a person."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from services.trainer.dryrun.memory import estimate
from services.trainer.dryrun.shape import Shape, read_shape
from services.trainer.dryrun.sizes import problems
from services.trainer.gpu.classes import worker_config
from services.trainer.ports import LearnerSettings
from shared.config import Config, ParallelConfig
from shared.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Line:
    """Something that was looked at.

    Attributes:
        what: was looked at.
        found: what came of it.
        wrong: a run would fail of it.
    """

    what: str
    found: str
    wrong: bool = False


def dry_run(config: Config) -> list[Line]:
    """Looks at everything that can be known without a GPU."""
    try:
        shape = read_shape(Path(config.engine.model))
    except ConfigError as e:
        return [Line("model", str(e), wrong=True)]
    return [*_model(shape), *_layout(config, shape), *_memory(config, shape), *_classes(config), *_unknown(config)]


def _model(shape: Shape) -> Iterator[Line]:
    kinds = f", {shape.expert_parameters / 1e9:.2f} of them in {shape.experts} experts a layer" if shape.experts else ""
    yield Line("model", f"{shape.family}, {shape.parameters / 1e9:.2f} billion parameters{kinds}, {shape.layers} layers")


def _layout(config: Config, shape: Shape) -> Iterator[Line]:
    parallel = config.trainer.parallel
    kind = "GPUs" if _gpus(parallel) else "processes without GPUs"
    yield Line("processes", f"{parallel.world} {kind}, {parallel.strategy}; a batch is cut into {parallel.data_parallel} parts")
    wrong = problems(config, shape)
    yield from (Line("sizes", problem, wrong=True) for problem in wrong)
    if not wrong:
        yield Line("sizes", "everything divides")


def _memory(config: Config, shape: Shape) -> Iterator[Line]:
    parts = estimate(config, shape)
    total, there = sum(parts.values()), config.trainer.parallel.gpu_memory_gb
    listed = ", ".join(f"{name} {size:.1f}" for name, size in parts.items())
    too_much = _gpus(config.trainer.parallel) and total > there
    verdict = f"more than the {there} GB of trainer.parallel.gpu_memory_gb" if too_much else f"of {there}"
    yield Line("memory", f"about {total:.1f} GB a process, {verdict} ({listed})", wrong=too_much)


def _classes(config: Config) -> Iterator[Line]:
    trainer = config.trainer
    settings = LearnerSettings(
        algorithm=trainer.algorithm,
        actor=trainer.actor,
        optim=trainer.optim,
        lora=trainer.lora,
        steps=max(1, trainer.steps),
        seed=config.run.seed,
    )
    try:
        made = worker_config(Path(config.engine.model), settings, trainer.parallel)
    except ConfigError as e:
        yield Line("veRL", str(e), wrong=True)
    else:
        names = ", ".join(type(part).__name__ for part in (made.model_config, made.engine_config, made.optimizer_config))
        yield Line("veRL", f"takes the settings: {names}")


def _gpus(parallel: ParallelConfig) -> bool:
    return bool(parallel.nnodes) and parallel.device == "cuda"


def _unknown(config: Config) -> Iterator[Line]:
    if config.trainer.parallel.strategy == "megatron":
        yield Line("start", "unverified: veRL's Megatron engine is started like this, which nobody has seen on GPUs yet")
    if _gpus(config.trainer.parallel):
        yield Line(
            "not looked at", "GPUs, drivers, NCCL and Ray's cluster; whether flash-attn and Megatron are installed there"
        )

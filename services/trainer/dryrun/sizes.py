"""What must divide, and what must fit into what. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from services.trainer.dryrun.shape import Shape
from shared.config import Config, ParallelConfig


def problems(config: Config, shape: Shape) -> list[str]:
    """Everything that would fail with these sizes, each with the settings to change."""
    parallel = config.trainer.parallel
    lora = config.trainer.lora.lora_rank
    by_strategy = _fsdp(parallel, shape) if parallel.strategy == "fsdp2" else _megatron(parallel, shape)
    refused = ["trainer.lora is fsdp2's; under megatron set trainer.lora.lora_rank = 0"]
    adapters = refused if lora and parallel.strategy == "megatron" else []
    return [*_where(parallel), *by_strategy, *adapters, *_batches(config), *_lengths(config, shape)]


def _where(parallel: ParallelConfig) -> Iterator[str]:
    if parallel.nnodes and parallel.ranks > 1:
        yield f"trainer.parallel.ranks = {parallel.ranks} are of one machine without GPUs; with nnodes leave it at 1"
    if parallel.strategy == "megatron" and not (parallel.nnodes and parallel.device == "cuda"):
        yield "trainer.parallel.strategy = megatron needs GPUs; set trainer.parallel.nnodes"
    if parallel.router_replay != "disabled" and parallel.strategy != "megatron":
        yield "trainer.parallel.router_replay is Megatron's; under fsdp2 recorded experts are replayed without it"


def _fsdp(parallel: ParallelConfig, shape: Shape) -> Iterator[str]:
    world, size, ulysses = parallel.world, parallel.fsdp_size, parallel.ulysses_sequence_parallel_size
    if parallel.device == "cpu" and (size != -1 or ulysses > 1):
        yield "trainer.parallel.device = cpu shards over all processes, whole rows each; leave fsdp_size and ulysses alone"
    if size == 0 or (size > 0 and world % size):
        yield f"trainer.parallel.fsdp_size = {size} does not divide the {world} processes"
    if world % ulysses:
        yield f"trainer.parallel.ulysses_sequence_parallel_size = {ulysses} does not divide the {world} processes"
    if shape.heads % ulysses:
        yield f"trainer.parallel.ulysses_sequence_parallel_size = {ulysses} does not divide the model's {shape.heads} heads"
    if shape.experts and ulysses > 1:
        yield "trainer.parallel.ulysses_sequence_parallel_size shares rows; recorded experts are replayed in whole ones only"
    for name in ("tensor_model", "pipeline_model", "context", "expert_model"):
        if getattr(parallel, f"{name}_parallel_size") > 1:
            yield f"trainer.parallel.{name}_parallel_size is Megatron's; set trainer.parallel.strategy = megatron"


def _megatron(parallel: ParallelConfig, shape: Shape) -> Iterator[str]:
    tensor, pipeline = parallel.tensor_model_parallel_size, parallel.pipeline_model_parallel_size
    context, expert = parallel.context_parallel_size, parallel.expert_model_parallel_size
    if parallel.world % (tensor * pipeline * context):
        yield f"tensor x pipeline x context = {tensor * pipeline * context} does not divide the {parallel.world} processes"
    if parallel.world % (expert * pipeline):
        yield f"expert x pipeline = {expert * pipeline} does not divide the {parallel.world} processes"
    if shape.heads % tensor or (shape.kv_heads % tensor and tensor % shape.kv_heads):
        yield f"tensor_model_parallel_size = {tensor} does not divide {shape.heads} heads, {shape.kv_heads} of keys"
    if shape.layers % pipeline:
        yield f"pipeline_model_parallel_size = {pipeline} does not divide the {shape.layers} layers of the model"
    if expert > 1 and not shape.experts:
        yield f"expert_model_parallel_size = {expert}, but the model has no experts"
    elif expert > 1 and shape.experts % expert:
        yield f"expert_model_parallel_size = {expert} does not divide the {shape.experts} experts of a layer"
    if parallel.ulysses_sequence_parallel_size > 1:
        yield "trainer.parallel.ulysses_sequence_parallel_size is fsdp2's; under megatron set context_parallel_size"


def _batches(config: Config) -> Iterator[str]:
    trainer = config.trainer
    mini, parts = trainer.actor.ppo_mini_batch_size or trainer.groups, max(1, trainer.parallel.data_parallel)
    if trainer.groups % mini:
        yield f"trainer.actor.ppo_mini_batch_size = {mini} does not divide trainer.groups = {trainer.groups}"
    if mini * trainer.n < parts:
        yield f"an optimizer step has {mini} x {trainer.n} trajectories, too few for {parts} parts; some GPUs would idle"


def _lengths(config: Config, shape: Shape) -> Iterator[str]:
    parallel = config.trainer.parallel
    split = parallel.context_parallel_size if parallel.strategy == "megatron" else parallel.ulysses_sequence_parallel_size
    budget, longest = config.trainer.actor.ppo_max_token_len_per_gpu * split, config.engine.max_model_len
    if longest > budget:
        yield (
            f"a row may have engine.max_model_len = {longest} tokens, but a micro-batch only {budget}; raise "
            "trainer.actor.ppo_max_token_len_per_gpu, or share rows among more GPUs"
        )
    if longest > shape.max_length:
        yield f"engine.max_model_len = {longest}, but the model was made for {shape.max_length} tokens"

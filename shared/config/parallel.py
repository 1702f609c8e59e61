"""Where the learner runs: as ranks on this machine, or on the nodes of a Ray cluster. The names are veRL's where it has one."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from shared.config.base import Count, Section, Whole


class ParallelConfig(Section, frozen=True, kw_only=True):
    """Where the learner runs.

    Attributes:
        ranks: processes on this machine that share the model and each batch, without GPUs.
        nnodes: machines of a Ray cluster, for veRL's worker groups; 0 for the ranks of this machine.
        n_gpus_per_node: processes of the learner on each, with a GPU of its own each.
        device: what those processes run on: `cuda`, or `cpu` to try it without GPUs.
        strategy: what shards the model: `fsdp2`, or `megatron` on GPUs.
        fsdp_size: GPUs that share one copy of the model under fsdp2; -1 for all of them.
        ulysses_sequence_parallel_size: GPUs that share a row under fsdp2.
        tensor_model_parallel_size: GPUs that share a layer under megatron.
        pipeline_model_parallel_size: groups of layers under megatron.
        context_parallel_size: GPUs that share a row under megatron.
        expert_model_parallel_size: GPUs that share the experts of a layer under megatron.
        param_offload: keep the weights in the machine's memory while they are not needed.
        optimizer_offload: the same for the optimizer's state.
        router_replay: experts under megatron: those that the engine chose (`R3`), or the learner's first pass (`R2`).
        gpu_memory_gb: of one GPU, which `openforge check --dry-run` compares its estimate with.
    """

    ranks: Count = 1
    nnodes: Whole = 0
    n_gpus_per_node: Count = 8
    device: Literal["cuda", "cpu"] = "cuda"
    strategy: Literal["fsdp2", "megatron"] = "fsdp2"
    fsdp_size: Annotated[int, Meta(ge=-1)] = -1
    ulysses_sequence_parallel_size: Count = 1
    tensor_model_parallel_size: Count = 1
    pipeline_model_parallel_size: Count = 1
    context_parallel_size: Count = 1
    expert_model_parallel_size: Count = 1
    param_offload: bool = False
    optimizer_offload: bool = False
    router_replay: Literal["disabled", "R2", "R3"] = "disabled"
    gpu_memory_gb: Count = 80

    @property
    def world(self) -> int:
        """Processes of the learner."""
        return self.nnodes * self.n_gpus_per_node or self.ranks

    @property
    def data_parallel(self) -> int:
        """Parts that a batch is cut into; whole only if the sizes divide."""
        if not self.nnodes:
            return self.ranks
        if self.strategy == "fsdp2":
            return self.world // self.ulysses_sequence_parallel_size
        return self.world // (self.tensor_model_parallel_size * self.pipeline_model_parallel_size * self.context_parallel_size)

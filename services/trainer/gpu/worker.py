"""One process of the learner on a node."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from services.trainer.verl import cpu_platform  # before all else of veRL: it sets the platform

# isort: split
import torch
import torch.distributed as dist

from services.trainer.learner.one import OneWorker
from services.trainer.ports import LearnerSettings
from shared.errors import ConfigError


class NodeWorker(OneWorker):
    """veRL's worker, which meets the others of its group by itself; its model is loaded.

    Args:
        model: folder, the same on every node.
        settings: of the learner.
        trains: or only says what the model makes of a batch.
    """

    def __init__(self, model: Path, settings: LearnerSettings, trains: bool) -> None:
        from services.trainer.gpu import classes
        from services.trainer.learner import workers

        parallel = settings.parallel
        cpu_platform.register_engine()
        torch.set_num_threads(settings.threads)
        torch.manual_seed(settings.seed)
        if parallel.device == "cpu":
            dist.init_process_group("gloo")
            config = workers.worker_config(model, settings, trains)
        else:
            if parallel.strategy == "megatron":
                need_megatron()
            config = classes.worker_config(model, settings, parallel, trains)
        super().__init__(config)
        self.reset()


def need_megatron() -> None:
    """veRL leaves its engine out where Megatron is missing, and then says only that there is none.

    Raises:
        ConfigError: it is missing.
    """
    if find_spec("megatron") is None:
        raise ConfigError(
            "trainer.parallel.strategy = megatron needs the package megatron-core on every node, and those that veRL's "
            "documentation names with it; or set the strategy to fsdp2"
        )

"""A checkpoint as a model folder: ``python -m services.trainer.journal.unpack RUN_FOLDER STEP``. Prints the folder.

The weights come out as they were trained, in fp32 (veRL's own merger would round them to bf16), put together from the parts of
however many processes; adapters are merged into the weights that they were trained beside.
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

from services.trainer.ports import LearnerSettings
from services.trainer.run import learner_settings
from services.trainer.sft.results import put
from services.trainer.sft.stage import WarmStart
from shared.config import Config, load_config
from shared.errors import ConfigError, ForgeError

CHECKPOINTS = "checkpoints"
UNPACKED = "model"
"""Beside the parts of the checkpoint."""


def checkpoint(run: Path, step: int) -> Path:
    """Folder of a run's checkpoint of a step.

    Raises:
        ConfigError: there is none.
    """
    folder = run / CHECKPOINTS / f"global_step_{step}"
    if not folder.is_dir():
        steps = sorted(int(path.name.rpartition("_")[2]) for path in folder.parent.glob("global_step_*"))
        raise ConfigError(f"{run.name} has no checkpoint of step {step}; there are {', '.join(map(str, steps)) or 'none'}")
    return folder


def unpack(run: Path, step: int) -> Path:
    """The model folder of a checkpoint; made unless it is there.

    Raises:
        ConfigError: there is no such checkpoint, it is not whole, or the model that RL began with is gone.
    """
    folder = checkpoint(run, step)
    target = folder / UNPACKED
    if not target.is_dir():
        config = load_config(run / "config.json")
        base = _began_as(run, config)
        if not (base / "config.json").is_file():
            raise ConfigError(f"{base}: the model that {run.name} began with is gone; it is needed to read a checkpoint")
        put(partial(_save, base, config, folder / "actor"), target)
    return target


def _began_as(run: Path, config: Config) -> Path:
    """The model that RL began with. Where all weights were trained, what it was made of does as well."""
    base, trainer = Path(config.engine.model), config.trainer
    if not (trainer.lora.lora_rank and trainer.warm_start.rows):
        return base
    return WarmStart(base, trainer.warm_start, learner_settings(config), run / "weights").result()


def _save(base: Path, config: Config, actor: Path, target: Path) -> None:
    from services.trainer.learner.workers import join_group, worker

    join_group()
    made = worker(base, LearnerSettings(lora=config.trainer.lora), trains=True)
    made.load_weights(actor)
    made.save_model(base, target)


def main() -> None:
    """Command line."""
    try:
        sys.stdout.write(f"{unpack(Path(sys.argv[1]), int(sys.argv[2]))}\n")
    except ForgeError as e:
        sys.exit(str(e))


if __name__ == "__main__":
    main()

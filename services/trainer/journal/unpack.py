"""A checkpoint as a model folder: ``python -m services.trainer.journal.unpack RUN_FOLDER STEP``. Prints the folder.

The weights come out as they were trained, in fp32 (veRL's own merger would round them to bf16).
"""

from __future__ import annotations

import sys
from pathlib import Path

from services.trainer.ports import LearnerFactory, LearnerSettings
from services.trainer.sft.results import put
from shared.config import load_config
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


def unpack(run: Path, step: int, factory: LearnerFactory) -> Path:
    """The model folder of a checkpoint; made unless it is there.

    Raises:
        ConfigError: there is no such checkpoint, or the model that the run began with is gone.
    """
    folder = checkpoint(run, step)
    target = folder / UNPACKED
    if not target.is_dir():
        base = Path(load_config(run / "config.json").engine.model)
        if not (base / "config.json").is_file():
            raise ConfigError(f"{base}: the model that {run.name} began with is gone; it is needed to read a checkpoint")
        learner = factory(base, LearnerSettings())
        learner.load_checkpoint(folder / "actor")
        put(learner.save_model, target)
    return target


def main() -> None:
    """Command line."""
    from services.trainer.service import verl_learner

    try:
        sys.stdout.write(f"{unpack(Path(sys.argv[1]), int(sys.argv[2]), verl_learner)}\n")
    except ForgeError as e:
        sys.exit(str(e))


if __name__ == "__main__":
    main()

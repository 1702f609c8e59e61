"""Which model is evaluated."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from msgspec.structs import replace

from services.dev.archives import run_folders, suggestion
from services.trainer.journal.unpack import UNPACKED, checkpoint
from shared.config import Config
from shared.errors import ConfigError


def with_model(config: Config, name: str) -> Config:
    """A configuration whose engine serves a model.

    Args:
        config: as it was resolved.
        name: a model folder; a run, by id or folder, for its trained model; `RUN@STEP` for a checkpoint. Empty: as configured.

    Raises:
        ConfigError: there is no such model, or an engine runs already that serves one of its own.
    """
    if not name:
        return config
    if config.engine.addresses:
        raise ConfigError(f"engine.url names an engine that serves its own model; leave --model {name} or engine.url away")
    model = find_model(Path(config.run.root), name)
    return replace(config, engine=replace(config.engine, model=str(model.resolve())))


def find_model(root: Path, name: str) -> Path:
    """The model folder that a name means; see `with_model`."""
    if (Path(name) / "config.json").is_file() and not (Path(name) / "weights").is_dir():
        return Path(name)
    run, _, step = name.partition("@")
    folder = Path(run) if (Path(run) / "config.json").is_file() else root / run
    if not (folder / "config.json").is_file():
        known = [path.name for path in run_folders(root)] if root.is_dir() else []
        raise ConfigError(f"{name}: neither a model folder (with config.json) nor a run under {root}{suggestion(run, known)}")
    return _checkpoint(folder, step) if step else _trained(folder)


def _trained(run: Path) -> Path:
    model = run / "weights" / "final"
    if not model.is_dir():
        raise ConfigError(f"{run.name} has no trained model: it did not reach its end; name a checkpoint as {run.name}@STEP")
    return model


def _checkpoint(run: Path, step: str) -> Path:
    if not step.isdecimal():
        raise ConfigError(f"{run.name}@{step}: a step is a number")
    target = checkpoint(run, int(step)) / UNPACKED
    if not target.is_dir():
        sys.stderr.write(f"unpacking the checkpoint of step {step}, once: {target}\n")
        made = subprocess.run(
            [sys.executable, "-m", "services.trainer.journal.unpack", str(run), step],
            capture_output=True,
            text=True,
            check=False,
        )
        if made.returncode:
            raise ConfigError(f"the checkpoint cannot be unpacked: {(made.stderr.strip().splitlines() or ['?'])[-1]}")
    return target

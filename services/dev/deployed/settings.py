"""The settings of one process of a deployed stack."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from shared.config import Config, load_config, resolve
from shared.errors import ConfigError
from shared.ids import check_id

_NEEDED = (
    ("run.id", "the run that all services of the stack belong to"),
    ("bus.url", "the NATS server"),
    ("store.url", "Redis"),
)


def deployed_config(file: Path, sets: Sequence[str] = ()) -> Config:
    """Settings out of a TOML file, the environment and `sets`, or what `openforge dev` resolved for its own services.

    Raises:
        ConfigError: it cannot be read, or leaves open what only whoever deploys can say.
        InvalidId: run.id is no legal identifier.
    """
    if file.suffix == ".json":
        return load_config(file)
    config = resolve(file, sets).config
    for name, what in _NEEDED:
        section, key = name.split(".")
        if not getattr(getattr(config, section), key):
            variable = f"OPENFORGE__{section}__{key}".upper()
            raise ConfigError(f"{file}: {name} is not set: {what}. Set it there or by the environment variable {variable}")
    check_id(config.run.id, "run.id")
    return config

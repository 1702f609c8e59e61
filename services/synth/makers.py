"""Who makes tasks, as configured."""

from __future__ import annotations

import importlib

from services.synth.families import FamilyMaker, wanted
from services.synth.ports import Maker
from shared.config import Config
from shared.errors import ConfigError


def maker_of(config: Config) -> Maker:
    """The configured maker.

    Raises:
        ConfigError: there is none of that name, or it cannot be made; the text says why.
    """
    if config.synth.generator == "families":
        from services.synth.domains import FAMILIES

        return FamilyMaker(wanted(FAMILIES, config.synth), config.synth.seed)
    return _own(config)


def _own(config: Config) -> Maker:
    """One that a user wrote: a function of a module that Python finds."""
    module, _, name = config.synth.generator.partition(":")
    try:
        make = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as e:
        raise ConfigError(f"synth.generator {config.synth.generator!r} cannot be had: {e}") from e
    maker: Maker = make(config)
    return maker

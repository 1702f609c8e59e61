"""Who makes tasks and who judges them, as configured. Client libraries of models are imported only where one is asked."""

from __future__ import annotations

import importlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from services.synth.books import Books
from services.synth.families import FamilyMaker, wanted
from services.synth.ports import Judge, Maker, Trials
from shared.config import Config
from shared.errors import ConfigError

if TYPE_CHECKING:
    from services.synth.models.client import Models


async def _nothing() -> None:
    """There is nothing to be closed."""


@dataclass(frozen=True, slots=True)
class Workers:
    """Who works on the tasks of a run.

    Attributes:
        maker: makes and mends them.
        judge: None where none is configured.
        close: ends connections.
    """

    maker: Maker
    judge: Judge | None = None
    close: Callable[[], Awaitable[None]] = _nothing


def workers_of(config: Config, trials: Trials) -> Workers:
    """The configured ones.

    Args:
        config: resolved configuration.
        trials: for a harness that builds tasks.

    Raises:
        ConfigError: a maker is not there, or cannot be made; the text says why.
    """
    about = config.synth
    if about.generator != "models" and not about.models.judge.model:
        return Workers(_modelless(config))
    from services.synth.models.judge import ModelJudge

    models = models_of(config)
    maker = _of_models(config, models, trials) if about.generator == "models" else _modelless(config)
    return Workers(maker, ModelJudge(models) if about.models.judge.model else None, models.close)


def answers_of(config: Config) -> Path:
    """Folder of the answers of models."""
    return Path(config.synth.models.cache) if config.synth.models.cache else Books(config).root / "answers"


def models_of(config: Config) -> Models:
    """The models of a run; none is asked before somebody does."""
    from services.synth.models.answers import Answers
    from services.synth.models.budget import Budget
    from services.synth.models.client import Models

    limits = config.synth.budget
    budget = Budget(limits.max_usd, limits.max_calls)
    return Models(config.synth.models, Answers(answers_of(config)), budget, config.run.id)


def _of_models(config: Config, models: Models, trials: Trials) -> Maker:
    from services.synth.models.maker import ModelMaker

    ideas = ModelMaker(config.synth, models)
    harness = config.synth.models.harness
    if not harness:
        return ideas
    from services.synth.models.workshop.maker import HarnessMaker

    return HarnessMaker(ideas, harness, trials, Books(config).root.parent)


def _modelless(config: Config) -> Maker:
    if config.synth.generator != "families":
        return _own(config)
    from services.synth.domains import FAMILIES

    return FamilyMaker(wanted(FAMILIES, config.synth), config.synth.seed)


def _own(config: Config) -> Maker:
    """One that a user wrote: a function of a module that Python finds."""
    module, _, name = config.synth.generator.partition(":")
    try:
        make = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as e:
        raise ConfigError(f"synth.generator {config.synth.generator!r} cannot be had: {e}") from e
    maker: Maker = make(config)
    return maker

"""Whether the models of a run can be asked, before anything is started."""

from __future__ import annotations

from typing import get_args

from services.synth.models.endpoint import key_of
from shared.config import Config, Role
from shared.errors import ConfigError


def check_models(config: Config) -> None:
    """Looks whether the models that a run will ask have their keys, and prices where money is limited. None is asked.

    Raises:
        ConfigError: a key is not there, or money is limited and a model has no price.
    """
    synth = config.synth
    roles: tuple[Role, ...] = get_args(Role) if synth.generator == "models" else ("judge",)
    for role in roles:
        about = synth.models.of(role)
        if not about.model:
            continue
        key_of(about)
        if synth.budget.max_usd and not (about.usd_per_mtok_in or about.usd_per_mtok_out):
            raise ConfigError(
                f"synth.budget.max_usd is set, and nobody knows what {about.model} costs: set usd_per_mtok_in and "
                f"usd_per_mtok_out of synth.models.{role}, or limit synth.budget.max_calls instead"
            )

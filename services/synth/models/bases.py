"""Environment bases: what of a task is there before a model writes anything, and what it has to write."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from services.synth.model import Domain
from shared.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Base:
    """The base of a domain's tasks.

    Attributes:
        files: of the task folder, by path; nobody may change them.
        scripts: those of `files` that are run.
        toml: what task.toml has of it.
        needed: paths that whoever builds has to write, besides instruction.md.
        copies: JSON files that are made of others, by path: what the verifier has to have of the environment.
        guide: for the prompt: what there is and how it is used.
        example: a whole small task, for the prompt.
    """

    files: Mapping[str, str]
    scripts: frozenset[str]
    toml: Mapping[str, Any]
    needed: tuple[str, ...]
    guide: str
    copies: Mapping[str, str] = field(default_factory=dict)
    example: str = ""

    @property
    def taken(self) -> frozenset[str]:
        """Paths that are not whoever builds's to write."""
        return frozenset(self.files) | frozenset(self.copies)


def base_of(domain: Domain) -> Base:
    """The base of a domain.

    Raises:
        ConfigError: models build no tasks of that domain.
    """
    if domain not in _BASES:
        raise ConfigError(f"models make no tasks of the domain {domain}; set synth.domains to some of {sorted(_BASES)}")
    return _BASES[domain]()


def _office() -> Base:
    from services.synth.models.office import office_base

    return office_base()


_BASES: dict[str, Callable[[], Base]] = {"claw": _office}

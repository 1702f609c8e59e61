"""Environment bases: what of a task is there before a model writes anything, and what it has to write."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from services.synth.model import Domain


@dataclass(frozen=True, slots=True)
class Fill:
    """JSON that is taken over from one file into another, so that environment and verifier have the same data.

    Attributes:
        target: path of the file that gets it.
        source: path of the file that has it.
        part: key of what is taken; empty takes all.
        into: key that it gets; empty makes the whole file of it, which is then not whoever builds's to write.
    """

    target: str
    source: str
    part: str = ""
    into: str = ""


@dataclass(frozen=True, slots=True)
class Base:
    """The base of a domain's tasks.

    Attributes:
        files: of the task folder, by path; nobody may change them.
        scripts: those of `files` that are run.
        toml: what task.toml has of it.
        needed: paths that whoever builds has to write, besides instruction.md.
        fills: what is taken over between files that are written.
        guide: for the prompt: what there is and how it is used.
        example: a whole small task, for the prompt.
    """

    files: Mapping[str, str]
    scripts: frozenset[str]
    toml: Mapping[str, Any]
    needed: tuple[str, ...]
    guide: str
    fills: tuple[Fill, ...] = ()
    example: str = ""

    @property
    def taken(self) -> frozenset[str]:
        """Paths that are not whoever builds's to write."""
        return frozenset(self.files) | {fill.target for fill in self.fills if not fill.into}


def base_of(domain: Domain) -> Base:
    """The base of a domain."""
    return _BASES[domain]()


def _office() -> Base:
    from services.synth.models.office import office_base

    return office_base()


def _tables(family: str) -> Callable[[], Base]:
    def base() -> Base:
        from services.synth.models.tables import tables_base

        return tables_base(family)

    return base


_BASES: dict[Domain, Callable[[], Base]] = {
    "claw": _office, "browser": _tables("wiki-find"), "computer": _tables("note-to-form"),
}  # fmt: skip

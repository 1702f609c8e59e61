"""The maker that needs no model: tasks of parameterised families."""

from __future__ import annotations

import asyncio
import hashlib
import tempfile
from collections.abc import Sequence
from pathlib import Path

from services.synth.model import Lineage, Proposal, Verdict
from services.synth.ports import Family
from shared.config import SynthConfig
from shared.errors import ConfigError, MakerError
from shared.ids import slug
from shared.task import load_task

_SEEDS = 1_000_000
"""Numbers that a seed is drawn from."""


class FamilyMaker:
    """See `Maker`. Proposals go through the families in turn, one domain after the other.

    Args:
        families: to make tasks of.
        seed: of the run.
    """

    def __init__(self, families: Sequence[Family], seed: int) -> None:
        self._families = {family.name: family for family in families}
        self._turn = in_turn(families)
        self._seed = seed

    async def propose(self, number: int) -> Proposal:
        """See `Maker.propose`. Its brief is the task's own instruction."""
        family = self._turn[number % len(self._turn)]
        seed = seed_of(self._seed, family.name, number)
        with tempfile.TemporaryDirectory(prefix="openforge-synth-") as folder:
            await asyncio.to_thread(family.make, seed, Path(folder))
            brief = load_task(Path(folder)).instruction
        return Proposal(
            task_id=slug(f"{family.name}-{seed}"), domain=family.domain, family=family.name, title=_title(brief), brief=brief,
            lineage=Lineage(generator="families", seed=seed),
        )  # fmt: skip

    async def build(self, proposal: Proposal, folder: Path) -> None:
        """See `Maker.build`."""
        family = self._families.get(proposal.family)
        if family is None:
            raise MakerError(f"there is no family {proposal.family!r} any more")
        await asyncio.to_thread(family.make, proposal.lineage.seed, folder)

    async def refine(self, proposal: Proposal, folder: Path, failure: Verdict, number: int) -> bool:
        """See `Maker.refine`: a program's task is as its program has it."""
        return False


def in_turn(families: Sequence[Family]) -> list[Family]:
    """Families in an order that takes one of each domain before it takes a second of any."""
    domains = dict.fromkeys(family.domain for family in families)
    columns = {domain: [family for family in families if family.domain == domain] for domain in domains}
    most = max(map(len, columns.values()), default=0)
    return [columns[domain][n % len(columns[domain])] for n in range(most) for domain in domains]


def seed_of(seed: int, family: str, number: int) -> int:
    """The seed of a proposal's task."""
    return int.from_bytes(hashlib.sha256(f"{seed}\0{family}\0{number}".encode()).digest()[:8]) % _SEEDS


def wanted(families: Sequence[Family], config: SynthConfig) -> list[Family]:
    """The families that the settings ask for.

    Raises:
        ConfigError: there is none, or one is asked for that is not there.
    """
    known = [family for family in families if family.domain in config.domains]
    names = sorted(family.name for family in known)
    if unknown := [name for name in config.families if name not in names]:
        raise ConfigError(f"synth.families: there is no {unknown[0]!r} in these domains; there are: {', '.join(names)}")
    chosen = [family for family in known if not config.families or family.name in config.families]
    if not chosen:
        raise ConfigError(f"synth.domains: no family makes tasks of {', '.join(config.domains)}")
    return chosen


def _title(brief: str) -> str:
    first = next((line.strip("# ").strip() for line in brief.splitlines() if line.strip("# ").strip()), "")
    return first if len(first) <= 100 else first[:99] + "…"

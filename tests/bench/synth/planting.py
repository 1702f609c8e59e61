"""Which of the bench's proposals are sound, and what is wrong with the others; and a generator that makes them so."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

from services.dev.synth.run import is_over, task_id_of
from services.synth.books import Books
from services.synth.domains import FAMILIES
from services.synth.families import FamilyMaker, in_turn, seed_of, wanted
from services.synth.model import Proposal, Verdict
from services.synth.ports import Family, Maker
from shared.config import Config
from tests.bench.synth.defects import DEFECTS, Defect
from tests.waiting import until

PLANTED = "OPENFORGE_BENCH_PLANTED"
"""Environment variable: names of the defects to plant, with commas between; each comes so often as it is named."""
EVALUATION = "evaluation"
"""Folder of the evaluation set, beside the run folder's root."""
_ORIGINAL_S = 600.0


@dataclass(frozen=True, slots=True)
class Plan:
    """What is planted.

    Attributes:
        count: of proposals; the last ones are spoiled, so that what copies are made of comes first.
        planted: the defects, in their order.
    """

    count: int
    planted: tuple[Defect, ...]

    @property
    def sound(self) -> int:
        """How many proposals are sound; these are the first."""
        return self.count - len(self.planted)

    def defect(self, number: int) -> Defect | None:
        """What is wrong with a proposal; None if nothing is."""
        return self.planted[number - self.sound] if number >= self.sound else None

    def original(self, number: int) -> int:
        """The sound proposal that a spoiled one is a copy of; each has at most one copy, as long as there are enough."""
        copies = [n for n in range(self.sound, self.count) if self.planted[n - self.sound].of == "pool"]
        return copies.index(number) % self.sound


def plan_of(count: int, names: Sequence[str]) -> Plan:
    """The plan with these defects.

    Raises:
        ValueError: one is none, or there is no sound task left.
    """
    known = {defect.name: defect for defect in DEFECTS}
    if unknown := [name for name in names if name not in known]:
        raise ValueError(f"there is no defect {unknown[0]!r}; there are: {', '.join(known)}")
    if len(names) >= count:
        raise ValueError(f"{len(names)} defects leave no sound task of {count}")
    return Plan(count, tuple(known[name] for name in names))


def evaluation_set(families: Sequence[Family], folder: Path, seed: int) -> list[tuple[Family, int]]:
    """Writes an evaluation set, a task a family, and returns what each was made of. What is there stays."""
    made = [(family, seed_of(seed, family.name, 1_000_000)) for family in in_turn(families)[: len(families)]]
    for family, own in made:
        task = folder / f"{family.name}-{own}"
        if not task.exists():
            part = folder / f".{task.name}"
            part.mkdir(parents=True)
            family.make(own, part)
            part.rename(task)
    return made


class Planting:
    """A maker that spoils what another one makes, as planned.

    Args:
        config: of the run.
        plan: what to spoil, and how.
        families: to make tasks of.
    """

    def __init__(self, config: Config, plan: Plan, families: Sequence[Family]) -> None:
        self._plan, self._seed = plan, config.synth.seed
        self._made = FamilyMaker(families, self._seed)
        self._books = Books(config)
        self._evaluation = evaluation_set(families, Path(config.run.root).parent / EVALUATION, self._seed)
        self._numbers: dict[str, int] = {}

    async def propose(self, number: int) -> Proposal:
        """See `Maker.propose`."""
        proposal = await self._made.propose(number)
        self._numbers[proposal.task_id] = number
        return proposal

    async def build(self, proposal: Proposal, folder: Path) -> None:
        """See `Maker.build`."""
        number = await self._number(proposal)
        defect = self._plan.defect(number)
        if defect is None or defect.of == "any":
            await self._made.build(proposal, folder)
        elif defect.of == "pool":
            await self._copy(self._plan.original(number), folder)
        else:
            family, seed = self._evaluation[number % len(self._evaluation)]
            await asyncio.to_thread(family.make, seed, folder)
        if defect:
            await asyncio.to_thread(defect.spoil, folder, Random(f"{self._seed}:{number}"))

    async def refine(self, proposal: Proposal, folder: Path, failure: Verdict, number: int) -> bool:
        """See `Maker.refine`."""
        return False

    async def _copy(self, number: int, folder: Path) -> None:
        original = await self._made.propose(number)
        await until(lambda: is_over(self._books.load(task_id_of(number))), _ORIGINAL_S)  # else the copy would be the original
        await self._made.build(original, folder)

    async def _number(self, proposal: Proposal) -> int:
        """Of a proposal; an earlier life of this process may have made it."""
        for number in range(self._plan.count):
            if proposal.task_id in self._numbers:
                break
            await self.propose(number)
        return self._numbers[proposal.task_id]


def maker(config: Config) -> Maker:
    """See `synth.generator`."""
    names = [name for name in os.environ[PLANTED].split(",") if name]
    return Planting(config, plan_of(config.synth.count, names), wanted(FAMILIES, config.synth))

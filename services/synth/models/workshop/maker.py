"""A maker whose builder is a harness in a sandbox; ideas are a model's."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Mapping
from pathlib import Path

from services.synth.model import Proposal, Trial, Verdict
from services.synth.models import folder as folders
from services.synth.models.bases import Base
from services.synth.models.kinds import Built
from services.synth.models.maker import ModelMaker, lay, task_text, verdict_text
from services.synth.models.workshop.order import TASK, read_built, write_order
from services.synth.ports import Trials
from services.synth.sources import note
from shared.errors import MakerError

_AGENT_MINUTES = 10


class HarnessMaker:
    """See `Maker`. What it asks for is a rollout like any other: the proxy records the builder's calls, and one that has ended
    is not made again.

    Args:
        ideas: proposes.
        harness: that builds.
        trials: run it.
        run: folder of the run.
    """

    def __init__(self, ideas: ModelMaker, harness: str, trials: Trials, run: Path) -> None:
        self._ideas, self._harness, self._trials, self._run = ideas, harness, trials, run

    async def propose(self, number: int) -> Proposal:
        """See `Maker.propose`."""
        return await self._ideas.propose(number)

    async def build(self, proposal: Proposal, folder: Path) -> None:
        """See `Maker.build`."""
        base = self._ideas.base(proposal.domain)
        built = await self._built(proposal, base, "build", "", {})
        await asyncio.to_thread(lay, proposal, built, base, folder)

    async def refine(self, proposal: Proposal, folder: Path, failure: Verdict, number: int) -> bool:
        """See `Maker.refine`."""
        base = self._ideas.base(proposal.domain)
        before = await asyncio.to_thread(_own_files, folder, base)
        built = await self._built(proposal, base, f"mend-{number}", verdict_text(failure), before)
        if {file.path: file.content for file in built.files} | {folders.INSTRUCTION: built.instruction} == before:
            return False
        await asyncio.to_thread(_clear, folder)
        await asyncio.to_thread(lay, proposal, built, base, folder)
        return True

    async def _built(self, proposal: Proposal, base: Base, what: str, verdict: str, files: Mapping[str, str]) -> Built:
        name = f"{what}-{proposal.task_id}"
        order = self._run / "synth" / "orders" / name
        values = {
            "task": task_text(proposal), "guide": base.guide, "example": base.example, "verdict": verdict,
            "needed": "\n".join(f"- {TASK}/{path}" for path in base.needed),
        }  # fmt: skip
        instruction = self._ideas.prompts.fill("mend-in-sandbox" if verdict else "build-in-sandbox", values)
        await asyncio.to_thread(_write_once, order, name, instruction, base, files)
        (ended,) = await self._trials.run(name, order, [Trial(agent=self._harness)])
        note(session=ended.session)
        if ended.reward != 1.0:
            why = ended.error or "what it left does not pass the check"
            raise MakerError(f"{self._harness} built no task ({ended.session}): {why}\n{ended.said}")
        left = self._run / "rollouts" / ended.session / "handover" / "0" / TASK
        if not left.is_dir():
            raise MakerError(f"{left} is not there: the builder's work was not kept")
        return await asyncio.to_thread(read_built, left, base, _AGENT_MINUTES)


def _write_once(folder: Path, name: str, instruction: str, base: Base, files: Mapping[str, str]) -> None:
    """Writes an order as a whole; one that is there is what was asked for before."""
    if folder.exists():
        return
    part = folder.with_name(f".{folder.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    write_order(part, name, instruction, base, files)
    part.rename(folder)


def _own_files(folder: Path, base: Base) -> dict[str, str]:
    """What was built on the base, by path."""
    built = read_built(folder, base, _AGENT_MINUTES)
    return {file.path: file.content for file in built.files} | {folders.INSTRUCTION: built.instruction}


def _clear(folder: Path) -> None:
    for path in folder.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()

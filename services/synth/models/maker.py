"""Tasks made by models: proposed from a seed, built on a domain's base, and mended with what a gate said."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from random import Random
from typing import Any, TypeVar

import msgspec

from services.synth.model import Domain, Lineage, Proposal, Verdict
from services.synth.models import folder as folders
from services.synth.models.bases import Base, base_of
from services.synth.models.client import Models, Reply
from services.synth.models.kinds import Built, File, Idea, Mended
from services.synth.models.prompts import Prompts
from services.synth.models.seeds import Seed, Seeds
from services.synth.models.variety import PERSONAS, SKILLS
from shared.config import Role, SynthConfig
from shared.errors import ConfigError, MakerError
from shared.ids import slug

T = TypeVar("T")
_PROMPTS, _WORKSHOP = ("propose", "build", "refine"), ("propose", "build-in-sandbox", "mend-in-sandbox")
_SKILLS = 2
_SHOWN = 60_000
"""Bytes of a task that a refiner is shown."""
_SAID = 6000
"""Characters of a verdict, from its end."""
Bases = Callable[[Domain], Base]


class ModelMaker:
    """See `Maker`.

    Args:
        settings: of synthesis.
        models: that are asked.
        bases: of domains.

    Attributes:
        prompts: that are filled in.
        base: of a domain.

    Raises:
        ConfigError: there is no model to build with, or seeds or prompts are not there.
    """

    def __init__(self, settings: SynthConfig, models: Models, bases: Bases = base_of) -> None:
        self._settings, self._models = settings, models
        self._seeds = Seeds(settings.models, settings.seed)
        self.prompts, self.base = Prompts(settings.models.prompts), cache(bases)
        needed: Role = "proposer" if settings.models.harness else "builder"
        if not settings.models.of(needed).model:
            raise ConfigError(f'generator = "models" needs a {needed}: set synth.models.{needed}.model, base_url and key_env')
        for domain in settings.domains:
            self.base(domain)

    async def propose(self, number: int) -> Proposal:
        """See `Maker.propose`."""
        settings, seed = self._settings, self._seeds.of(number)
        rng = Random(f"{settings.seed}:{number}")
        domain: Domain = settings.domains[number % len(settings.domains)]
        skills: Sequence[str] = settings.models.skills or SKILLS
        values = {
            "number": str(number), "domain": domain, "guide": self.base(domain).guide, "seed": seed.text or "(none)",
            "seed_kind": seed.kind, "persona": rng.choice(settings.models.personas or PERSONAS),
            "skills": "; ".join(rng.sample(skills, min(_SKILLS, len(skills)))),
        }  # fmt: skip
        reply = await self._models.ask("proposer", self.prompts.fill("propose", values), Idea)
        return self._proposal(number, domain, seed, reply)

    def _proposal(self, number: int, domain: Domain, seed: Seed, reply: Reply[Idea]) -> Proposal:
        idea = reply.value
        if not idea.title.strip() or not idea.brief.strip():
            raise MakerError("the proposer's idea has no title or no brief")
        name = hashlib.sha256(f"{self._settings.seed}:{number}:{idea.title}".encode()).hexdigest()[:8]
        task_id = f"{slug(idea.title.lower())[:50].strip('-')}-{name}"
        about = self._settings.models
        roles: tuple[Role, ...] = ("proposer", "builder", "refiner")
        models: dict[str, str] = {
            role: about.harness if about.harness and role != "proposer" else about.of(role).model for role in roles
        }
        lineage = Lineage(
            generator="models", seed=self._settings.seed, source=seed.source, models=models, calls=list(reply.calls),
            prompts=self.prompts.digests(*(_WORKSHOP if about.harness else _PROMPTS)),
        )  # fmt: skip
        return Proposal(
            task_id=task_id, domain=domain, family=seed.name or task_id, title=idea.title, brief=idea.brief,
            details=msgspec.to_builtins(idea), lineage=lineage,
        )  # fmt: skip

    async def build(self, proposal: Proposal, folder: Path) -> None:
        """See `Maker.build`."""
        base = self.base(proposal.domain)
        needed = "\n".join(f"- {path}" for path in base.needed)
        values = {"task": task_text(proposal), "guide": base.guide, "example": base.example, "needed": needed}
        reply = await self._models.ask("builder", self.prompts.fill("build", values), Built, _checked(base))
        await asyncio.to_thread(lay, proposal, reply.value, base, folder)

    async def refine(self, proposal: Proposal, folder: Path, failure: Verdict, number: int) -> bool:
        """See `Maker.refine`."""
        base = self.base(proposal.domain)
        values = {
            "task": task_text(proposal), "guide": base.guide, "number": str(number), "verdict": verdict_text(failure),
            "files": folders.listing(folder, base.taken, _SHOWN),
        }  # fmt: skip

        def check(mended: Mended) -> str:
            kept = [path for path in (folders.INSTRUCTION, *base.needed) if path in mended.removed]
            removable = folders.problem([File(path, "x") for path in mended.removed], base.taken, ())
            if kept:
                return f"{kept[0]} is needed"
            return removable or folders.problem(mended.files, base.taken, ()) or _no_json(mended.files, base)

        reply = await self._models.ask("refiner", self.prompts.fill("refine", values), Mended, check)
        if not reply.value.files and not reply.value.removed:
            return False
        try:
            await asyncio.to_thread(folders.write, folder, reply.value.files, reply.value.removed)
        except OSError as e:  # a file where a folder is, or the other way round
            raise MakerError(f"the refiner's change does not fit the task: {e}") from None
        await asyncio.to_thread(fill, base, folder)
        return True


def lay(proposal: Proposal, built: Built, base: Base, folder: Path) -> None:
    """Writes a task folder: the base, what was built on it, and task.toml."""
    folders.write(folder, [File(path, text) for path, text in base.files.items()])
    for path in base.scripts:
        (folder / path).chmod(0o755)
    folders.write(folder, [*built.files, File(folders.INSTRUCTION, built.instruction)])
    folders.write_toml(folder, f"{proposal.domain}/{proposal.task_id}", proposal.family, built.agent_minutes, dict(base.toml))
    fill(base, folder)


def fill(base: Base, folder: Path) -> None:
    """Takes data over between files. A whole file is written otherwise than the one that it is taken from: no file of the
    verifier is to be one of the environment."""
    for one in base.fills:
        text = (folder / one.source).read_text(encoding="utf-8")
        data = json.loads(text)[one.part] if one.part else json.loads(text)
        if one.into:
            target = json.loads((folder / one.target).read_text(encoding="utf-8"))
            filled = json.dumps(target | {one.into: data}, indent=1)
        else:
            filled = json.dumps(data)
            filled = json.dumps(data, indent=1) if filled == text.strip() else filled
        folders.write(folder, [File(one.target, filled)])


def task_text(proposal: Proposal) -> str:
    """A proposal, for a prompt."""
    said = {name: proposal.details.get(name, "") for name in ("environment", "check")}
    skills: Sequence[str] = proposal.details.get("skills", ())
    return (
        f"Title: {proposal.title}\n\nWhat is asked: {proposal.brief}\n\nWhat is there: {said['environment']}\n\n"
        f"How it is checked: {said['check']}\n\nIt calls for: {'; '.join(skills)}"
    )


def verdict_text(verdict: Verdict) -> str:
    """What a gate said, for a prompt: the end of it, where there is much."""
    evidence = msgspec.json.format(msgspec.json.encode(verdict.evidence)).decode()
    said = f"Gate: {verdict.gate}\nReason: {verdict.reason}\n\n{verdict.detail[-_SAID:]}"
    return f"{said}\n\nEvidence:\n{evidence[-_SAID:]}" if verdict.evidence else said


def _no_json(files: Sequence[File], base: Base) -> str:
    """What is wrong with the data that the environment and the verifier have in common."""
    keys = {fill.source: fill.part for fill in base.fills} | {fill.target: "" for fill in base.fills if fill.into}
    for file in files:
        if file.path in keys:
            try:
                data = msgspec.json.decode(file.content, type=dict[str, Any])
            except msgspec.DecodeError as e:
                return f"{file.path} is no JSON object: {e}"
            if keys[file.path] and keys[file.path] not in data:
                return f"{file.path} has no {keys[file.path]!r}"
    return ""


def _checked(base: Base) -> Callable[[Built], str]:
    """What is wrong with a task as it was built, empty if nothing is."""

    def check(built: Built) -> str:
        if not built.instruction.strip():
            return "the instruction is empty"
        return folders.problem(built.files, {*base.taken, folders.INSTRUCTION}, base.needed) or _no_json(built.files, base)

    return check

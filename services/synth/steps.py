"""What is done with a candidate, stage by stage. Each step can be done again: what an earlier life of it left is taken up."""

from __future__ import annotations

import asyncio
import logging
import shutil
import time
from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from services.synth.books import PART, TASK, Books, Known, fresh
from services.synth.candidate import PRUNED, Candidate, accepted, built, held, proposed, pruned, rejected, tried
from services.synth.gates.texts import normal
from services.synth.makers import Workers
from services.synth.model import Proposal, Verdict
from services.synth.pool import TaskPool
from services.synth.ports import Gate, Room, Trials
from services.synth.sources import noting
from shared.errors import BudgetError, BusUnavailable, ConfigError, EngineError, MakerError, SandboxError
from shared.task import folder_digest

log = logging.getLogger(__name__)


class Steps:
    """The steps of one run.

    Args:
        run_id: the run.
        rounds: of refinement at most.
        books: where it stands.
        workers: make the tasks, and judge them.
        gates: what they must pass, in this order.
        trials: run them.
        pool: the others.
    """

    def __init__(
        self, run_id: str, rounds: int, books: Books, workers: Workers, gates: Sequence[Gate], trials: Trials, pool: TaskPool
    ) -> None:  # fmt: skip
        self._run_id, self._rounds, self._books = run_id, rounds, books
        self._maker, self._judge = workers.maker, workers.judge
        self._gates, self._trials, self._pool = gates, trials, pool
        self._accepting = asyncio.Lock()
        self._proposals = {task.task_id: task.proposal for task in books.all() if task.proposal and task.gate != PRUNED}

    async def step(self, task: Candidate) -> Candidate:
        """Does what follows from where a candidate stands; it is noted when this returns."""
        try:
            after = await self._next(task)
        except MakerError as e:
            reason = "no-task" if task.proposal else "no-proposal"
            after = rejected(task, time.time(), gate="maker", reason=reason, detail=str(e))
        except (BudgetError, EngineError) as e:
            after = held(task, str(e), shared=True)
        except (SandboxError, ConfigError) as e:
            after = held(task, str(e))
        except BusUnavailable:
            raise  # the same message comes again
        except Exception as e:  # a defect of ours is no reason to turn a task down
            log.exception("%s waits", task.task_id)
            after = held(task, f"{type(e).__name__}: {e}")
        self._books.save(after)
        return after

    async def _next(self, task: Candidate) -> Candidate:
        match task.stage:
            case "asked":
                return await self._propose(task)
            case "proposed":
                return await self._build(task)
            case "built":
                return tried(task, await self._failure(task))
            case "tried":
                return await (self._refine(task) if task.gate else self._accept(task))
        return task

    async def _propose(self, task: Candidate) -> Candidate:
        proposal = await self._maker.propose(task.number)
        for other, known in self._proposals.items():
            if other != task.task_id and (reason := _alike(proposal, known)):
                return pruned(task, proposal, reason, f"the proposal of {other} came before it", time.time())
        self._proposals[task.task_id] = proposal
        return proposed(task, proposal)

    async def _build(self, task: Candidate) -> Candidate:
        target = self._books.round(task) / TASK
        if not target.exists():
            part = fresh(target.with_name(f"{TASK}{PART}"))
            with noting() as sources:
                await self._maker.build(_proposal(task), part)
            self._books.made(task, task.round, sources)
            part.rename(target)
        return built(task, await asyncio.to_thread(folder_digest, target))

    async def _failure(self, task: Candidate) -> Verdict | None:
        """The verdict of the first gate that it fails. A gate that has judged this content already is not asked again."""
        earlier: dict[str, Verdict] = {}
        for gate in self._gates:
            kept = self._books.verdict(task, gate.name)
            verdict = kept.verdict if kept else await self._ask(gate, task, earlier)
            if verdict.outcome == "failed":
                return verdict
            earlier[gate.name] = verdict
        return None

    async def _ask(self, gate: Gate, task: Candidate, earlier: Mapping[str, Verdict]) -> Verdict:
        began, pool = time.monotonic(), len(self._pool.accepted())
        room = Room(
            trials=self._trials, pool=self._pool, evidence=self._books.evidence(task), earlier=earlier, judge=self._judge
        )  # fmt: skip
        with noting() as sources:
            verdict = await gate.judge(_proposal(task), self._books.round(task) / TASK, room)
        verdict = replace(verdict, gate=gate.name, seconds=round(time.monotonic() - began, 3))
        self._books.keep(task, verdict, pool, sources.calls)
        return verdict

    async def _refine(self, task: Candidate) -> Candidate:
        failure = self._books.verdict(task, task.gate)
        if task.round >= self._rounds or failure is None:
            return rejected(task, time.time())
        number = task.round + 1
        target = self._books.round(task, number) / TASK
        if not target.exists():
            part = fresh(target.with_name(f"{TASK}{PART}"))
            shutil.copytree(self._books.round(task) / TASK, part, symlinks=True, dirs_exist_ok=True)
            with noting() as sources:
                changed = await self._maker.refine(_proposal(task), part, failure.verdict, number)
            if not changed:
                return rejected(task, time.time())
            self._books.made(task, number, sources)
            part.rename(target)
        return built(task, await asyncio.to_thread(folder_digest, target), number)

    async def _accept(self, task: Candidate) -> Candidate:
        async with self._accepting:
            known = self._books.known_of(task.name)
            ours = known is not None and (known.run, known.digest) == (self._run_id, task.digest)
            if not ours and (self._books.accepted / task.name).exists():
                detail = f"there is another task {task.name} in {self._books.accepted}"
                return rejected(task, time.time(), gate=PRUNED, reason="name-taken", detail=detail)
            failure = None if ours else await self._copy(task)
            if not failure:
                self._books.accept(task, known if known and ours else self._known(task))
                self._pool.add(self._books.accepted / task.name)
                return accepted(task, time.time())
        self._books.save(task := tried(task, failure))
        return await self._refine(task)

    async def _copy(self, task: Candidate) -> Verdict | None:
        """The verdict of a gate that compares, and finds it too like one that was accepted since it was asked."""
        earlier = {verdict.gate: verdict for verdict in self._books.verdicts(task, task.round)}
        for gate in self._gates:
            kept = self._books.verdict(task, gate.name)
            if gate.compares and kept and kept.pool != len(self._pool.accepted()):
                verdict = await self._ask(gate, task, earlier)
                if verdict.outcome == "failed":
                    return verdict
        return None

    def _known(self, task: Candidate) -> Known:
        verdicts = [kept.verdict for gate in self._gates if (kept := self._books.verdict(task, gate.name))]
        splits = [verdict.evidence["split"] for verdict in verdicts if "split" in verdict.evidence]
        images = [verdict.evidence["image"] for verdict in verdicts if "image" in verdict.evidence]
        proposal = replace(_proposal(task), lineage=self._books.lineage(task))
        return Known(
            proposal=proposal, digest=task.digest, run=self._run_id, rounds=task.round, at=time.time(),
            split=str(splits[-1]) if splits else "train", verdicts=verdicts,
            image=str(images[-1]) if images else "",
        )  # fmt: skip


def _proposal(task: Candidate) -> Proposal:
    assert task.proposal is not None, "only what was proposed gets that far"
    return task.proposal


def _alike(proposal: Proposal, known: Proposal) -> str:
    """Why two proposals are one; empty if they are not."""
    if proposal.task_id == known.task_id:
        return "same-name"
    one, other = ((p.lineage.generator, p.lineage.seed, normal(p.brief)) for p in (proposal, known))
    return "same-brief" if one == other else ""  # a family's tasks may all read alike: their data differ, by seed

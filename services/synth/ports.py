"""What the pipeline asks of its parts: makers make tasks, gates judge them, trials run them, a pool knows the others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar

from services.synth.model import Domain, Ended, Proposal, Trial, Verdict

T = TypeVar("T")


class Family(Protocol):
    """Tasks that differ in their data only, made by a program."""

    name: str
    domain: Domain

    def make(self, seed: int, folder: Path) -> None:
        """Writes a whole task folder; the same one, byte for byte, for the same seed.

        Args:
            seed: of its random numbers.
            folder: a new one, empty.
        """
        ...


class Maker(Protocol):
    """Makes tasks: of families, or by models."""

    async def propose(self, number: int) -> Proposal:
        """The proposal of that number, counted from 0; the same one whenever it is asked for.

        Raises:
            MakerError: there is none, and why.
            BudgetError: it would cost more than there is left.
            EngineError: no model answers for now; to be tried again.
        """
        ...

    async def build(self, proposal: Proposal, folder: Path) -> None:
        """Writes the task folder of a proposal into a new, empty folder.

        Raises:
            MakerError: it cannot be built, and why.
            BudgetError, EngineError: as in `propose`.
        """
        ...

    async def refine(self, proposal: Proposal, folder: Path, failure: Verdict, number: int) -> bool:
        """Changes the task in `folder`, so that it passes the gate that it failed; false if there is nobody who could.

        Args:
            proposal: what it was made of.
            folder: the task, to be changed in place.
            failure: what the gate said.
            number: of the round, from 1.

        Raises:
            MakerError: it cannot be changed, and why.
            BudgetError, EngineError: as in `propose`.
        """
        ...


class Trials(Protocol):
    """Runs tasks, as ordinary rollouts."""

    async def run(self, task_id: str, folder: Path, wanted: Sequence[Trial]) -> list[Ended]:
        """Runs trials of a task, several at once, and returns how they ended, in the order of `wanted`. One that ended before,
        in an earlier life of this process, on the same content of the folder, is not run again.

        Raises:
            BudgetError: there are no rollouts left.
            SandboxError: a trial was lost through no fault of the task; to be tried again.
        """
        ...


@dataclass(frozen=True, slots=True)
class Text:
    """What a task is compared by.

    Attributes:
        name: of the task.
        text: its instruction.
        digest: of what it consists of, less what only names it.
        family: of tasks that differ in their data only.
        environment: digest of what the agent finds; empty for nothing.
        answer: digest of verifier and solution.
    """

    name: str
    text: str
    digest: str
    family: str = ""
    environment: str = ""
    answer: str = ""


class Pool(Protocol):
    """The tasks that a new one must not be a copy of."""

    def accepted(self) -> Sequence[Text]:
        """Those that were accepted before, in this run and earlier ones."""
        ...

    def held_out(self) -> Sequence[Text]:
        """Those of the evaluation sets."""
        ...


class Judge(Protocol):
    """A model that judges."""

    async def ask(self, text: str, kind: type[T]) -> T:
        """Its answer to a prompt; the same one whenever the same is asked, in later lives of this process, too.

        Args:
            text: the whole prompt.
            kind: a msgspec Struct without defaults and constraints, for the answer; it goes as a JSON schema with the prompt.

        Raises:
            MakerError: it refuses, or gives nothing of that kind.
            BudgetError, EngineError: as in `Maker.propose`.
        """
        ...


@dataclass(frozen=True, slots=True)
class Room:
    """What a gate may use.

    Attributes:
        trials: runs the task.
        pool: the other tasks.
        evidence: folder beside the task for files that are worth keeping: logs, diffs.
        earlier: verdicts of the gates before, by name.
        judge: None where none is configured.
    """

    trials: Trials
    pool: Pool
    evidence: Path
    earlier: Mapping[str, Verdict]
    judge: Judge | None = None


class Gate(Protocol):
    """Something that a task must pass. It changes nothing in the task's folder, and judges the same content alike.

    Attributes:
        name: of its verdicts.
        compares: its verdict is also of the tasks in the pool: it is asked again, by itself, if others were accepted meanwhile.
    """

    name: str
    compares: bool

    async def judge(self, proposal: Proposal, folder: Path, room: Room) -> Verdict:
        """What it says of the task in `folder`.

        Raises:
            BudgetError: it needs more than there is left.
        """
        ...

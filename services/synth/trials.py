"""Trials over the bus: each is an ordinary rollout of the orchestrator, whose outcome is kept on disk."""

from __future__ import annotations

import asyncio
import hashlib
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
from msgspec.structs import replace

from services.synth.books import Books, write
from services.synth.model import Ended, Trial
from services.synth.said import said
from shared import errors
from shared.bus import Bus
from shared.config import Config
from shared.errors import (
    BudgetError,
    Cancelled,
    ForgeError,
    HarnessCrash,
    ImageError,
    OutOfMemory,
    RunTimeout,
    SandboxError,
    policy_of,
)
from shared.events import Message, RolloutFailed, RolloutFinished, RolloutStart, RolloutTimedOut
from shared.ids import check_id, session_id
from shared.task import folder_digest

OUTCOMES = (RolloutFinished, RolloutTimedOut, RolloutFailed)
Outcome = RolloutFinished | RolloutTimedOut | RolloutFailed
_OF_THE_TASK = (ImageError, OutOfMemory, RunTimeout, HarnessCrash)
"""Failures that are tried again by the orchestrator, and may well be its task's."""


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """A trial that was asked for.

    Attributes:
        task_id: of the task.
        digest: of its content.
        trial: which.
        life: counts from 1; one more for each time that the rollout was lost.
        ended: how; None before.
    """

    task_id: str
    digest: str
    trial: Trial
    life: int = 1
    ended: Ended | None = None


class BusTrials:
    """See `Trials`. What is asked for is on disk before it is on the bus, and what came of it before it is acknowledged."""

    def __init__(self, config: Config, bus: Bus, books: Books) -> None:
        self._config, self._bus, self._folder = config, bus, books.trials
        self._most = config.synth.budget.max_rollouts
        self._told: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)
        self._asked: set[str] = set()
        self._lost: dict[str, str] = {}

    async def start(self) -> None:
        """Returns when outcomes are listened for."""
        self._folder.mkdir(parents=True, exist_ok=True)
        self._asked = {file.stem for file in self._folder.glob("*.json")}
        await self._bus.consume("synth-outcomes", OUTCOMES, self._on_outcome, run_id=self._config.run.id)

    async def run(self, task_id: str, folder: Path, wanted: Sequence[Trial]) -> list[Ended]:
        """See `Trials.run`."""
        digest = await asyncio.to_thread(folder_digest, folder)
        names = [name_of(task_id, digest, trial) for trial in wanted]
        asked = [Asked(task_id=task_id, digest=digest, trial=trial) for trial in wanted]
        self._note({name: one for name, one in zip(names, asked, strict=True) if name not in self._asked})
        ended = await asyncio.gather(*(self._one(name, folder) for name in names), return_exceptions=True)
        return [_unless_failed(one) for one in ended]

    async def _one(self, name: str, folder: Path) -> Ended:
        while not (asked := self._read(name)).ended:
            self._told[name].clear()
            await self._bus.publish(self._start(name, asked, folder))  # the orchestrator knows it if it was asked before
            await self._told[name].wait()
            if lost := self._lost.pop(name, ""):
                raise SandboxError(f"a trial was lost, and will be made again: {lost}")
        return asked.ended

    def _start(self, name: str, asked: Asked, folder: Path) -> RolloutStart:
        trial, rollout = asked.trial, rollout_of(name, asked.life)
        return RolloutStart(
            run_id=self._config.run.id, rollout_id=rollout, group_id=rollout, group_size=1, purpose="eval",
            task_dir=str(folder.resolve()), harness=trial.agent, clock=trial.clock,
            clock_for=trial.clock_for, env=trial.env,
        )  # fmt: skip

    def _note(self, trials: Mapping[str, Asked]) -> None:
        if self._most and len(self._asked) + len(trials) > self._most:
            raise BudgetError(f"{len(self._asked)} rollouts were asked for; synth.budget.max_rollouts allows {self._most}")
        for name, asked in trials.items():
            write(self._file(name), asked)
            self._asked.add(name)

    async def _on_outcome(self, message: Message) -> None:
        """Keeps an outcome; those of rollouts that somebody else asked for are none of ours."""
        if not isinstance(message, OUTCOMES) or (isinstance(message, RolloutFailed) and not message.final):
            return
        name, life = trial_of(message.rollout_id)
        if name not in self._asked:
            return
        asked = self._read(name)
        if not asked.ended and asked.life == life:
            await self._keep(name, asked, message)
        if name in self._told:
            self._told[name].set()

    async def _keep(self, name: str, asked: Asked, message: Outcome) -> None:
        if isinstance(message, RolloutFailed) and is_lost(message.reason):
            after = replace(asked, life=asked.life + 1)
            if message.reason != Cancelled.__name__:  # who cancels ends the whole run; it is made again with it
                self._lost[name] = f"{message.reason}: {message.detail}"
        else:
            record = self._folder.parent.parent / "rollouts" / session_id(message.rollout_id, message.attempt)
            after = replace(asked, ended=ended_of(asked.trial, message, await asyncio.to_thread(said, record)))
        write(self._file(name), after)

    def _read(self, name: str) -> Asked:
        return msgspec.json.decode(self._file(name).read_bytes(), type=Asked)

    def _file(self, name: str) -> Path:
        return self._folder / f"{name}.json"


def name_of(task_id: str, digest: str, trial: Trial) -> str:
    """The name of a trial: the same one for the same trial of the same content."""
    what = hashlib.sha256(f"{digest}\0{trial.clock}\0{trial.clock_for}\0{sorted(trial.env.items())}".encode()).hexdigest()[:12]
    return check_id(f"{task_id[:70]}-{trial.agent[:20]}-{trial.run}-{what}", "name of a trial")


def rollout_of(name: str, life: int) -> str:
    """The rollout of a trial that was lost so often, less one.

    >>> trial_of(rollout_of("find-the-word-null-1-abc", 2))
    ('find-the-word-null-1-abc', 2)
    """
    return f"{name}-l{life}"


def trial_of(rollout: str) -> tuple[str, int]:
    """The name and the life of the trial that a rollout is of; of another's rollout anything, which is no trial's name."""
    name, _, life = rollout.rpartition("-l")
    return name, int(life) if life.isdecimal() else 0


def is_lost(reason: str) -> bool:
    """Whether a rollout failed of something that its task has no part in, so that another one may end otherwise."""
    kind = getattr(errors, reason, None)
    if not isinstance(kind, type) or not issubclass(kind, ForgeError) or issubclass(kind, _OF_THE_TASK):
        return False
    return issubclass(kind, Cancelled) or policy_of(kind).retry


def _unless_failed(ended: Ended | BaseException) -> Ended:
    if isinstance(ended, BaseException):
        raise ended
    return ended


def ended_of(trial: Trial, message: Outcome, printed: str) -> Ended:
    """A rollout's last message, as an end of a trial."""
    session = session_id(message.rollout_id, message.attempt)
    ended = Ended(trial=trial, said=printed, session=session, image=message.image)
    match message:
        case RolloutFinished():
            failed = f"the agent's exit code was {message.exit_code}" if message.exit_code else ""
            return replace(ended, reward=message.reward, error=failed, seconds=message.agent_s + message.verify_s)
        case RolloutTimedOut():
            why = f"the agent was ended after {message.agent_s:.0f} s: {message.reason}"
            return replace(ended, reward=message.reward, error=why, timed_out=True, seconds=message.agent_s)
    late = message.reason in ("VerifierTimeout", "RunTimeout")
    return replace(ended, error=f"{message.reason}: {message.detail}", timed_out=late)

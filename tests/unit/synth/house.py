"""What the tests of this folder share: a tiny family, gates that are played, an orchestrator that is played."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from services.synth.books import Books
from services.synth.families import FamilyMaker
from services.synth.model import Domain, Proposal, Trial, Verdict
from services.synth.ports import Gate, Maker, Room
from services.synth.service import SynthService
from shared.bus.memory import Broker, MemoryBus
from shared.config import Config, RunConfig, SynthConfig
from shared.errors import BudgetError
from shared.events import Message, RolloutFailed, RolloutFinished, RolloutStart, SynthStart
from shared.subjects import tap_pattern

RUN = "run1"


@dataclass
class Words:
    """A family whose tasks ask for a word to be copied."""

    name: str = "words"
    domain: Domain = "claw"

    def make(self, seed: int, folder: Path) -> None:
        files = {
            "task.toml": f'[task]\nname = "house/{self.name}-{seed}"\n[metadata]\nfamily = "{self.name}"\n',
            "instruction.md": f"Write the word w{seed} into /app/word.txt.\n",
            "environment/Dockerfile": "FROM debian:12.8\nWORKDIR /app\n",
            "tests/test.sh": f'grep -qx w{seed} "$APP_DIR/word.txt" && echo 1 > "$LOGS_DIR/verifier/reward.txt"\n',
            "solution/solve.sh": f"echo w{seed} > word.txt\n",
        }
        for path, text in files.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(text)


@dataclass
class Careful(FamilyMaker):
    """A maker that counts, and mends what it is told to."""

    mends: bool = False
    built: list[str] = field(default_factory=list)
    refined: list[tuple[str, str]] = field(default_factory=list)

    def __init__(self, *families: Words, mends: bool = False) -> None:
        super().__init__(families or (Words(),), 0)
        self.mends, self.built, self.refined = mends, [], []

    async def build(self, proposal: Proposal, folder: Path) -> None:
        self.built.append(proposal.task_id)
        await super().build(proposal, folder)

    async def refine(self, proposal: Proposal, folder: Path, failure: Verdict, number: int) -> bool:
        self.refined.append((proposal.task_id, failure.reason))
        (folder / "mended.txt").write_text(f"round {number}")
        return self.mends


@dataclass
class Played:
    """A gate that says what it is told to."""

    name: str = "played"
    compares: bool = False
    judges: Callable[[Proposal, Path, Room], str] = lambda *_: ""
    asked: list[str] = field(default_factory=list)

    async def judge(self, proposal: Proposal, folder: Path, room: Room) -> Verdict:
        self.asked.append(proposal.task_id)
        reason = self.judges(proposal, folder, room)
        return Verdict(gate=self.name, outcome="failed" if reason else "passed", reason=reason)


@dataclass
class Solved:
    """A gate that has the task's own solution, and nobody, try it."""

    name: str = "solved"
    compares: bool = False

    async def judge(self, proposal: Proposal, folder: Path, room: Room) -> Verdict:
        null, oracle = await room.trials.run(proposal.task_id, folder, [Trial(agent="null"), Trial(agent="oracle")])
        rewards = [null.reward, oracle.reward]
        outcome, reason = ("passed", "") if rewards == [0, 1] else ("failed", "unsolved")
        return Verdict(gate=self.name, outcome=outcome, reason=reason, evidence={"rewards": rewards})  # type: ignore[arg-type]


@dataclass
class Poor:
    """A gate whose asking costs more than there is."""

    name: str = "poor"
    compares: bool = False
    money: bool = False

    async def judge(self, proposal: Proposal, folder: Path, room: Room) -> Verdict:
        if not self.money:
            raise BudgetError("all is spent")
        return Verdict(gate=self.name, outcome="passed")


class Stage:
    """A run folder, a bus, and whoever listens."""

    def __init__(self, folder: Path, synth: SynthConfig) -> None:
        self.config = Config(run=RunConfig(id=RUN, root=str(folder)), synth=synth)
        self.books = Books(self.config)
        self.broker = Broker()
        self.heard: list[Message] = []
        self.bus = MemoryBus(self.broker)
        self.rewards = {"null": 0.0, "oracle": 1.0}
        self.loses: set[str] = set()
        self.rollouts: list[RolloutStart] = []

    async def listen(self) -> None:
        async for tapped in self.bus.tap(tap_pattern("evt", RUN)):
            if tapped.message:
                self.heard.append(tapped.message)

    async def on_start(self, message: Message) -> None:
        assert isinstance(message, RolloutStart)
        self.rollouts.append(message)
        common: dict[str, Any] = {
            "run_id": RUN, "rollout_id": message.rollout_id, "group_id": message.group_id, "group_size": 1,
            "task": "t", "harness": message.harness,
        }  # fmt: skip
        if message.harness in self.loses:
            self.loses.discard(message.harness)
            await self.bus.publish(RolloutFailed(reason="Evicted", detail="the machine went", **common))
        else:
            await self.bus.publish(RolloutFinished(reward=self.rewards[message.harness], **common))

    async def ask(self, *numbers: int) -> None:
        for number in numbers:
            await self.bus.publish(SynthStart(run_id=RUN, task_id=f"n{number:05}", number=number))

    def tags(self, number: int) -> list[str]:
        return [type(m).__name__ for m in self.heard if m.key == f"n{number:05}"]


@asynccontextmanager
async def stage(folder: Path, **synth: object) -> AsyncIterator[Stage]:
    scene = Stage(folder, SynthConfig(**synth))  # type: ignore[arg-type]
    ear = asyncio.create_task(scene.listen())
    await asyncio.sleep(0)
    await scene.bus.consume("orchestrator", [RolloutStart], scene.on_start, run_id=RUN)
    try:
        yield scene
    finally:
        ear.cancel()
        await scene.bus.close()


@asynccontextmanager
async def serving(scene: Stage, maker: Maker | None, gates: Sequence[Gate]) -> AsyncIterator[SynthService]:
    """A synth process for as long as the context lasts."""
    bus = MemoryBus(scene.broker)
    service = SynthService(scene.config, bus, maker, gates)
    try:
        await service.start()
        yield service
    finally:
        await service.stop()
        await bus.close()

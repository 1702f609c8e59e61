"""What stands in for the heavy parts in tests of the trainer: a learner without a model, and rollouts without agents."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from services.trainer.batch.samples import Sample
from services.trainer.ports import LearnerSettings, Part, Update
from services.trainer.service import TrainerService
from shared.bus import Bus
from shared.bus.memory import MemoryBus
from shared.config import Config
from shared.events import (
    BlobRef,
    GroupCompleted,
    GroupDiscarded,
    Message,
    RolloutCancel,
    RolloutStart,
    Row,
    RunFinished,
    RunStart,
    RunStepped,
    SessionSealed,
    Span,
    TokenCounts,
    Trajectory,
)
from shared.packing import pack_floats, pack_ids, pack_mask
from shared.store.blobs import Blobs
from shared.store.sessions import Sessions
from tests.engine import bytes_tokenizer as tokenizer
from tests.engine.scripted import ScriptedEngine
from tests.waiting import until

M = TypeVar("M", bound=Message)
PROMPT, REPLY = [5, 6, 7], [8, 9, 10, 11]


def make_model(folder: Path) -> Path:
    """A model folder with nothing in it but what is read before a model is loaded."""
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps({"vocab_size": 256}))
    return folder


def make_tasks(folder: Path, count: int) -> Path:
    """A set of task folders, as far as the trainer looks into them."""
    for i in range(count):
        (folder / f"t{i:02}").mkdir(parents=True, exist_ok=True)
        (folder / f"t{i:02}" / "task.toml").touch()
    return folder


class StubLearner:
    """A learner whose log-probs are those of the scripted engine, and that remembers what it was asked.

    Attributes:
        samples: of every update.
        taught: what every update was made of, those before a checkpoint that was loaded included.
        sft: learning rate of every supervised step.
        gap: added to its log-probs.
        broken: updates fail.
        grad_norm: that they report.
        closed: it was.
    """

    def __init__(self, model: Path, settings: LearnerSettings) -> None:
        self.model = model
        self.settings = settings
        self.samples: list[list[Sample]] = []
        self.taught: list[str] = []
        self.sft: list[float] = []
        self.gap = 0.0
        self.broken = False
        self.grad_norm = 0.5
        self.closed = False

    def log_probs(self, sequences: Sequence[Sequence[int]]) -> list[list[float]]:
        return [[tokenizer.logprob(list(s), i) + self.gap for i in range(1, len(s))] for s in sequences]

    def sft_step(self, samples: Sequence[Sample], lr: float) -> float:
        self.sft.append(lr)
        return 1.0

    def update(self, samples: Sequence[Sample]) -> Update:
        if self.broken:
            raise KeyError("no\nsuch thing")
        self.samples.append(list(samples))
        self.taught.append(hashlib.sha256(repr(samples).encode()).hexdigest())
        return Update({"actor/grad_norm": self.grad_norm, "actor/pg_loss": 0.1}, [2e-6] * len(samples))

    def export(self, file: Path, part: Part = "whole") -> None:
        file.write_text(f"{part} {len(self.samples)}")

    def tensors(self) -> dict[str, Any]:
        return {}

    def save_model(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "config.json").write_text(json.dumps({"vocab_size": 256}))

    def save_checkpoint(self, folder: Path, step: int) -> None:
        folder.mkdir(parents=True)
        (folder / "taught").write_text(json.dumps(self.taught))

    def close(self) -> None:
        self.closed = True

    def load_checkpoint(self, folder: Path) -> None:
        self.taught = json.loads((folder / "taught").read_text())


Plan = Callable[[RolloutStart], float | str]
"""What becomes of a rollout: its reward, or the reason why it failed."""


@dataclass
class Rollouts:
    """Answers `RolloutStart` as proxy, orchestrator and collector would together: one call of four sampled tokens a rollout.

    Attributes:
        plan: what becomes of each rollout.
        lag: how many versions behind the calls say they are.
        lost: the last call of every session has no record, though the engine sampled for it.
        silent: groups never close.
        stuck: groups whose id ends so never close.
        rows: makes the rows of a rollout; none for one of one call.
        restarts: the engine loses its weights during every group.
        blob_gone: groups travel by a reference that leads nowhere.
        starts: rollouts that were asked for, in order.
        cancelled: rollouts whose end was asked for.
    """

    bus: Bus
    sessions: Sessions
    engine: ScriptedEngine
    plan: Plan
    lag: int = 0
    lost: bool = False
    silent: bool = False
    stuck: str = "nobody"
    rows: Callable[[RolloutStart], Sequence[Row]] = lambda start: ()
    restarts: bool = False
    blob_gone: bool = False
    starts: list[RolloutStart] = field(default_factory=list)
    cancelled: list[str] = field(default_factory=list)
    _groups: dict[str, list[RolloutStart]] = field(default_factory=dict)

    async def listen(self, run_id: str = "*") -> None:
        await self.bus.consume("orchestrator", [RolloutStart, RolloutCancel], self._on_message, run_id=run_id)

    async def _on_message(self, message: Message) -> None:
        if isinstance(message, RolloutCancel):
            self.cancelled.append(message.rollout_id)
            return
        assert isinstance(message, RolloutStart)
        self.starts.append(message)
        group = self._groups.setdefault(message.group_id, [])
        group.append(message)
        await self._seal(message)
        if self.restarts:
            self.engine.weights.version = "default"
        if len(group) == message.group_size and not self.silent and not message.group_id.endswith(self.stuck):
            await self.bus.publish(await self._close(group))

    async def _seal(self, start: RolloutStart) -> None:
        self.engine.generated += len(REPLY) * (2 if self.lost else 1)
        message = SessionSealed(
            run_id=start.run_id, rollout_id=start.rollout_id, group_id=start.group_id, purpose=start.purpose,
            session_id=f"{start.rollout_id}-a1", calls=1 + self.lost, lost=[2] if self.lost else [],
        )  # fmt: skip
        await self.bus.publish(message)

    async def _close(self, group: list[RolloutStart]) -> GroupCompleted | GroupDiscarded:
        first, version = group[0], await self.sessions.replicas.newest() - self.lag
        ends = [(start, self.plan(start)) for start in group]
        rewards = [(start, end) for start, end in ends if not isinstance(end, str)]
        outcomes = Counter(end if isinstance(end, str) else "finished" for _, end in ends)
        common: dict[str, Any] = {
            "run_id": first.run_id, "group_id": first.group_id, "purpose": first.purpose, "task": Path(first.task_dir).name,
            "outcomes": dict(outcomes),
        }  # fmt: skip
        sampled = len(REPLY) * len(group)
        if first.purpose == "train" and len({reward for _, reward in rewards}) < 2:
            reason = "no_variance" if rewards else "too_few"
            tokens = TokenCounts(sampled=sampled, dropped=sampled, reasons={reason: sampled})
            return GroupDiscarded(tokens=tokens, reason=reason, **common)
        trained = len(REPLY) * len(rewards)
        lost = {"too_few": sampled - trained} if sampled > trained else {}
        tokens = TokenCounts(sampled=sampled, trained=trained, dropped=sampled - trained, reasons=lost)
        trajectories = [trajectory(start.rollout_id, reward, version, self.rows(start)) for start, reward in rewards]
        if self.blob_gone:
            return GroupCompleted(tokens=tokens, ref=BlobRef(key="gone", size=1, sha256="00"), **common)
        return GroupCompleted(tokens=tokens, trajectories=trajectories, **common)


def by_number(start: RolloutStart) -> float:
    """Every second rollout of a group succeeds."""
    return float(int(start.rollout_id[-1]) % 2)


@dataclass
class World:
    """A trainer and all that it talks to."""

    config: Config
    bus: MemoryBus
    sessions: Sessions
    blobs: Blobs
    service: TrainerService
    rollouts: Rollouts
    learners: list[StubLearner]
    seen: list[Message]

    @property
    def folder(self) -> Path:
        """The run folder."""
        return Path(self.config.run.root) / self.config.run.id

    @property
    def summary(self) -> dict[str, Any]:
        """What `summary.json` says."""
        content: dict[str, Any] = json.loads((self.folder / "summary.json").read_text())
        return content

    @property
    def lines(self) -> list[dict[str, Any]]:
        """What `metrics.jsonl` says."""
        return [json.loads(text) for text in (self.folder / "metrics.jsonl").read_text().splitlines()]

    def of(self, kind: type[M]) -> list[M]:
        """Messages of a kind, in order."""
        return [m for m in self.seen if isinstance(m, kind)]

    async def run(self) -> RunFinished:
        """Starts the run and returns its last message."""
        await self.bus.publish(RunStart(run_id=self.config.run.id))
        await until(lambda: bool(self.of(RunFinished)))
        return self.of(RunFinished)[0]


MakeWorld = Callable[..., Awaitable[World]]


async def stopped(world: World, step: int) -> World:
    """The world after its trainer was stopped, a few messages after a step."""
    await world.bus.publish(RunStart(run_id="run-1"))
    await until(lambda: any(s.step == step for s in world.of(RunStepped)))
    await world.service.stop()
    return world


def trajectory(rollout_id: str, reward: float, version: int = 0, made: Sequence[Row] = ()) -> Trajectory:
    """A rollout with the rows that were made of it; one of one call, if none are named."""
    rows = list(made) or [row()]
    return Trajectory(
        rollout_id=rollout_id, attempt=1, task="t", harness="react", reward=reward, calls=sum(len(r.spans) for r in rows),
        min_version=version, max_version=version, rows=rows,
    )  # fmt: skip


def row(prompt: Sequence[int] = PROMPT, reply: Sequence[int] = REPLY, seq: int = 1, after: int = 0) -> Row:
    """A row of one call that is trained."""
    return Row(
        prompt_len=len(prompt),
        ids=pack_ids([*prompt, *reply]),
        response_mask=pack_mask([0] * len(prompt) + [1] * len(reply)),
        logprobs=pack_floats([0.0] * len(prompt) + [-0.5] * len(reply)),
        spans=[Span(seq=seq, start=len(prompt), end=len(prompt) + len(reply), after=after)],
    )

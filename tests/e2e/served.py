"""Real vLLMs under the supervisor, a gateway before them and a trainer's publisher behind: what tests of pushes need."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import ExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import aiohttp
import msgspec

from services.dev.plan import Plan, make_plan
from services.dev.scratch import scratch
from services.dev.supervisor import Supervisor
from services.trainer.books.files import RunFiles
from services.trainer.model import vocab_size
from services.trainer.thread import LearnerThread
from services.trainer.tools import Tools
from services.trainer.weights.fleet import Fleet
from services.trainer.weights.publish import Publisher
from shared.config import Config
from shared.events import CallRecorded, WeightsFailed, WeightsLoaded
from shared.packing import unpack_floats, unpack_ids
from tests.unit.proxy.world import World, living_world

if TYPE_CHECKING:
    from services.trainer.learner import VerlLearner

PATIENCE_S = 150.0
EXACT = 1e-4
"""Nats that fp32 log-probs of vLLM and veRL may differ by."""


@dataclass
class Served:
    """Engines that serve a tiny model, and all around them."""

    plan: Plan
    supervisor: Supervisor
    world: World
    fleet: Fleet
    learner: VerlLearner
    publisher: Publisher
    statuses: list[int] = field(default_factory=list)
    _models: list[Path] = field(default_factory=list)

    @property
    def folder(self) -> Path:
        return self.plan.folder

    def kill(self, name: str = "engine") -> None:
        """kill -9."""
        os.kill(self.supervisor.pids()[name], 9)

    async def learn_and_push(self) -> int:
        """Changes every weight, and publishes that as the next version."""
        from services.trainer.batch.samples import Sample

        ids = [[(7 * n + i) % 250 for i in range(32)] for n in range(3)]
        samples = [Sample(row, 1, [1] * 31, [0.0] * 31) for row in ids]
        if self._models:
            for _ in range(5):
                self.learner.sft_step(samples, 3e-3)
        version = len(self._models)
        self._models.append(self.folder / f"model-{version}")
        self.learner.save_model(self._models[-1])
        await self.publisher.publish(self.learner, version)
        return version

    @asynccontextmanager
    async def load(self, rollouts: int) -> AsyncIterator[None]:
        """So many rollouts call one reply after another while the context lasts; all of their calls end."""
        done = asyncio.Event()
        bases = [await self.world.open(f"load{n}-a1", temperature=1.0, max_tokens=24) for n in range(rollouts)]
        tasks = [asyncio.create_task(self._talk(base, n, done)) for n, base in enumerate(bases)]
        try:
            yield
        finally:
            done.set()
            await asyncio.gather(*tasks)

    async def _talk(self, base: str, number: int, done: asyncio.Event) -> None:
        turn = 0
        while not done.is_set():
            turn += 1
            async with self.world.http.post(
                f"{base}/v1/chat/completions",
                json={"model": "m", "messages": [{"role": "user", "content": f"{number} {turn}"}], "stream": turn % 2 == 0},
                timeout=aiohttp.ClientTimeout(total=PATIENCE_S),
            ) as response:
                with suppress(aiohttp.ClientPayloadError):  # a reply that its engine's death cut off
                    await response.read()
                self.statuses.append(response.status)

    def records(self, version: int) -> list[CallRecorded]:
        """Calls that are stamped with a version."""
        return [r for r in self.world.records if r.weight_version_start == r.weight_version_end == version]

    def largest_gap(self, records: Sequence[CallRecorded], version: int) -> float:
        """Largest difference (nats) of recorded log-probs and those that a version of the weights gives."""
        from services.trainer.learner import VerlLearner
        from services.trainer.ports import LearnerSettings

        known = VerlLearner(self._models[version], LearnerSettings())
        worst = 0.0
        for record in records:
            assert record.parent_len == 0, "every conversation is one message long"
            prompt, completion = unpack_ids(record.prompt_delta), unpack_ids(record.completion)
            (again,) = known.log_probs([[*prompt, *completion]])
            told = unpack_floats(record.logprobs)
            worst = max([worst, *(abs(a - b) for a, b in zip(again[len(prompt) - 1 :], told, strict=True))])
        return worst

    def loaded(self) -> list[WeightsLoaded]:
        return [m for m in self.world.bus.messages() if isinstance(m, WeightsLoaded)]

    def failed(self) -> list[WeightsFailed]:
        return [m for m in self.world.bus.messages() if isinstance(m, WeightsFailed)]


@asynccontextmanager
async def served(folder: Path, replicas: int) -> AsyncIterator[Served]:
    """Real engines with a tiny random model, from the moment at which they answer."""
    from services.trainer.learner import VerlLearner
    from services.trainer.ports import LearnerSettings
    from tests.engine.tied_model import make_tied_model

    model = make_tied_model(folder / "model")
    engine = {"model": str(model), "max_model_len": 512, "kv_cache_mb": 64, "max_num_seqs": 16, "replicas": replicas}
    tree = {
        "run": {"id": "run1", "root": str(folder / "runs")}, "engine": engine | {"start_timeout_s": PATIENCE_S},
        "proxy": {"hold_s": PATIENCE_S}, "trainer": {"push": {"watch_s": 0.2}},
    }  # fmt: skip
    plan = make_plan(msgspec.convert(tree, Config), ())
    supervisor = Supervisor(print)
    thread = LearnerThread()
    ends = ExitStack()
    try:
        ends.enter_context(scratch(plan.scratch))
        assert plan.serving_copy is not None
        await supervisor.complete(plan.serving_copy)
        for spec in plan.engines:
            await supervisor.start(spec)
        about = plan.config.engine
        fleet = Fleet(about.addresses, about.served_name)
        await fleet.wait_healthy(PATIENCE_S)
        async with living_world(cast(Any, None), about=about, hold_s=PATIENCE_S, call_timeout_s=PATIENCE_S) as world:
            tools = Tools(
                config=plan.config, bus=world.bus, sessions=world.sessions, engine=fleet, files=RunFiles(plan.folder),
                thread=thread, desk=cast(Any, None), history=cast(Any, None), summary=cast(Any, None), factory=cast(Any, None),
            )  # fmt: skip
            learner = VerlLearner(model, LearnerSettings())
            yield Served(plan, supervisor, world, fleet, learner, Publisher(tools, vocab_size(model)))
            await fleet.close()
    finally:
        thread.close()
        await supervisor.stop()
        ends.close()

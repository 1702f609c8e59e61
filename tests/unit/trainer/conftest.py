"""Whole runs: the real service on the twins of bus and store, with a scripted engine, a stub learner and made-up rollouts."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import fakeredis
import msgspec
import pytest

from services.trainer.ports import LearnerSettings
from services.trainer.service import TrainerService
from shared.bus.memory import MemoryBus
from shared.config import Config
from shared.events import EVENTS, Message
from shared.store.blobs import Blobs
from shared.store.sessions import Sessions
from tests.engine.scripted import ScriptedEngine
from tests.unit.trainer.twins import MakeWorld, Plan, Rollouts, StubLearner, World, by_number, make_model, make_tasks


def _leave(learner: StubLearner) -> None: ...


@pytest.fixture
async def make_world(tmp_path: Path, scripted_engine: ScriptedEngine) -> AsyncIterator[MakeWorld]:
    worlds: list[World] = []  # of one folder and one engine: a second one takes up the run of the first

    async def make(plan: Plan = by_number, prepare: Callable[[StubLearner], None] = _leave, **trainer: Any) -> World:
        settings = {"steps": 2, "groups": 3, "n": 4, "save_freq": 1, "eval_episodes": 5, "step_timeout_s": 20.0, **trainer}
        tree = {
            "run": {"id": "run-1", "root": str(tmp_path / "runs"), "seed": 3},
            "engine": {"url": scripted_engine.url, "model": str(make_model(tmp_path / "model")), "start_timeout_s": 0.3},
            "proxy": {"hold_s": 0.2},
            "tasks": {"train": str(make_tasks(tmp_path / "train", 4)), "heldout": str(make_tasks(tmp_path / "heldout", 2))},
            "trainer": settings,
        }
        config = msgspec.convert(tree, Config)
        (tmp_path / "runs" / "run-1").mkdir(parents=True, exist_ok=True)
        bus, store = MemoryBus(), fakeredis.FakeAsyncRedis()
        learners: list[StubLearner] = []
        seen: list[Message] = []

        def factory(model: Path, settings: LearnerSettings) -> StubLearner:
            learners.append(StubLearner(model, settings))
            prepare(learners[-1])
            return learners[-1]

        async def watch(message: Message) -> None:
            seen.append(message)

        sessions = Sessions(store, "run-1")
        await sessions.replicas.restore(dict.fromkeys(config.engine.addresses, 0))
        rollouts = Rollouts(bus, sessions, scripted_engine, plan)
        await rollouts.listen()
        others = [kind for kind in EVENTS if not kind.__name__.startswith("Group")]
        await bus.consume("watch", others, watch)
        blobs = Blobs(store, "run-1", patience_s=0)
        service = TrainerService(config, bus, sessions, blobs, factory=factory, draw=lambda folder: folder)
        await service.start()
        worlds.append(World(config, bus, sessions, blobs, service, rollouts, learners, seen))
        return worlds[-1]

    yield make
    for world in worlds:
        await world.service.stop()
        await world.bus.close()

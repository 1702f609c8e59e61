"""kill -9 of a real trainer (veRL, NATS, a Redis-compatible store) at each phase: it ends with the weights of one that was left
alone and got the same groups."""

from __future__ import annotations

import asyncio
import hashlib
import os
import signal
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest

from services.app import open_bus, open_store
from shared.config import Config
from shared.events import Message, RolloutStart, Row, RunFinished, RunStart
from shared.keys import OPERATOR
from shared.store.sessions import Sessions
from tests.chaos.dying_trainer import PHASES
from tests.e2e.stacks import REPO
from tests.e2e.trained import largest_difference, steps_begun
from tests.embedded import Address
from tests.engine.scripted import ScriptedEngine
from tests.engine.tied_model import make_tied_model
from tests.unit.trainer.twins import PROMPT, Rollouts, by_number, make_tasks, row
from tests.waiting import until

pytestmark = [pytest.mark.real, pytest.mark.slow, pytest.mark.timeout(900)]
STEPS = 3


@dataclass(frozen=True)
class Site:
    """What trainers of a test share."""

    root: Path
    nats: Address
    store: Address
    engine: ScriptedEngine

    def config(self, run_id: str) -> Config:
        trainer = {
            "steps": STEPS, "groups": 2, "n": 4, "save_freq": 2, "eval_episodes": 0, "probe_gap": 1e6, "step_timeout_s": 300.0,
            "optim": {"lr": 1e-3},
        }  # fmt: skip
        tree: dict[str, Any] = {
            "run": {"id": run_id, "root": str(self.root), "seed": 3},
            "bus": {"url": self.nats.url, "keys": self.nats.keys, "ack_wait_s": 3.0},
            "store": {"url": self.store.url, "keys": self.store.keys},
            "engine": {"url": self.engine.url, "model": str(self.root / "model")},
            "tasks": {"train": str(self.root / "tasks")},
            "trainer": trainer,
        }
        return msgspec.convert(tree, Config)


def rows_of(start: RolloutStart) -> Sequence[Row]:
    """A row that depends on nothing but the rollout's seed, so that every run gets the same ones."""
    digest = hashlib.sha256(str(start.sampling["seed"]).encode()).digest()
    return [row(PROMPT, [b for b in digest[:12]])]


@pytest.fixture
async def site(
    tmp_path: Path,
    nats_server: Address,
    store_server: Address,
    scripted_engine: ScriptedEngine,
    monkeypatch: pytest.MonkeyPatch,
) -> Site:
    make_tied_model(tmp_path / "model")
    make_tasks(tmp_path / "tasks", 4)
    return Site(tmp_path, nats_server, store_server, scripted_engine)


@asynccontextmanager
async def rollouts(site: Site, config: Config) -> AsyncIterator[list[Message]]:
    """Everything but the trainer, while the context lasts. Yields the ends of runs that were told."""
    bus, store = await open_bus(config, OPERATOR), open_store(config, OPERATOR)
    sessions = Sessions(store, config.run.id)
    await sessions.replicas.restore(dict.fromkeys(config.engine.addresses, 0))
    ends: list[Message] = []

    async def on_end(message: Message) -> None:
        ends.append(message)

    twin = Rollouts(bus, sessions, site.engine, by_number, rows=rows_of)
    await twin.listen(config.run.id)
    await bus.consume("watch", [RunFinished], on_end, run_id=config.run.id)
    yield ends
    await bus.close()
    await store.aclose()


async def trainer(file: Path, *death: str) -> asyncio.subprocess.Process:
    (tmp := file.parent / "tmp").mkdir(exist_ok=True)  # a killed one removes nothing
    with (file.parent / "trainer.log").open("ab") as log:
        return await asyncio.create_subprocess_exec(
            sys.executable, "-m", "tests.chaos.dying_trainer", file, *death, cwd=REPO, stdout=log, stderr=log,
            env={**os.environ, "OMP_WAIT_POLICY": "PASSIVE", "TMPDIR": str(tmp)},
        )  # fmt: skip


async def train(site: Site, run_id: str, *death: str) -> Path:
    """A run to its end, by a trainer that dies once if so armed, and its successor. Returns the run folder."""
    config = site.config(run_id)
    folder = site.root / run_id
    folder.mkdir()
    (folder / "config.json").write_bytes(msgspec.json.encode(config))
    async with rollouts(site, config) as ends:
        bus = await open_bus(config, OPERATOR)
        await bus.publish(RunStart(run_id=run_id))
        if death:
            first = await trainer(folder / "config.json", *death)
            await until(lambda: bool(ends) or first.returncode is not None, 400)
            assert not ends, (folder / "trainer.log").read_text()[-3000:]
            assert await first.wait() == -signal.SIGKILL, (folder / "trainer.log").read_text()[-3000:]
        last = await trainer(folder / "config.json")
        try:
            await until(lambda: bool(ends) or last.returncode is not None, 400)
            assert ends, (folder / "trainer.log").read_text()[-3000:]
        finally:
            last.terminate()
            await last.wait()
        await bus.close()
    (end,) = ends
    assert isinstance(end, RunFinished)
    assert (end.ok, end.error, end.summary["steps"], end.summary["version"]) == (True, "", STEPS, STEPS)
    assert (end.summary["groups_completed"], end.summary["rollouts"]) == (2 * STEPS, 8 * STEPS)
    return folder


async def test_a_trainer_that_is_killed_at_any_phase_ends_with_the_weights_of_one_that_is_not(site: Site) -> None:
    whole = await train(site, "whole")
    base = largest_difference(whole, await train(site, "again"))
    assert base <= 1e-6  # the same groups make the same weights at all
    for phase in PHASES:
        killed = await train(site, phase.replace(" ", "-"), phase, "2")
        assert largest_difference(whole, killed) <= 1e-6, phase
        assert max(steps_begun(killed).values()) == 1, phase
    from safetensors.torch import load_file

    began = load_file(site.root / "model" / "model.safetensors")
    ended = load_file(whole / "weights" / "final" / "model.safetensors")
    assert max(float((began[name] - ended[name]).abs().max()) for name in ended) > 1e-4  # it did learn

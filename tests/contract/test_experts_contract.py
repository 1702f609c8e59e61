"""A mixture of experts: which of them the engine chose is recorded by the real proxy, and replayed by the real learner."""

from __future__ import annotations

import io
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pytest

from services.collector.assemble import assemble
from services.trainer.batch.samples import Sample, completed, unpack
from services.trainer.ports import LearnerSettings
from services.trainer.weights.client import VllmEngine
from services.trainer.weights.pushed import checksum
from services.trainer.weights.pushing import largest_gap
from shared.config import EngineConfig, OptimConfig
from shared.errors import EngineError, FidelityError
from shared.events import BlobRef
from tests.engine.scripted import ScriptedEngine
from tests.unit.proxy.world import World, living_world

if TYPE_CHECKING:
    from services.trainer.learner import VerlLearner

pytestmark = [pytest.mark.real, pytest.mark.slow, pytest.mark.timeout(900), pytest.mark.filterwarnings("ignore")]

CLOSE = 1e-3
"""Nats that log-probs of learner and engine may differ by."""
LAYERS, CHOSEN, EXPERTS = 2, 2, 8
PROBE = [[(7 * n + 11 * i) % 250 for i in range(32)] for n in range(3)]


@pytest.fixture
async def world(scripted_engine: ScriptedEngine, moe_engine: EngineConfig) -> AsyncIterator[World]:
    async with living_world(scripted_engine, about=moe_engine) as world:
        yield world


async def samples_of(world: World) -> list[Sample]:
    """Rows of four calls with a prompt of their own, read as the trainer does, half of them rewarded."""
    base = await world.open(max_tokens=20, seed=1, temperature=1.0)
    for n in range(4):
        status, answer = await world.chat(base, "tell me " * (n + 1) + str(n))
        assert status == 200, answer
    await world.seal()
    made = assemble(world.records, world.seals[0], max_row_tokens=4096)
    assert all(row.experts for row in made.rows)
    hashes = {row.experts for row in made.rows}
    beside = {sha: await world.blobs.get(BlobRef(key=sha, size=0, sha256=sha)) for sha in hashes}
    read = [completed(unpack(row), beside) for row in made.rows]
    return [replace(s, advantages=[1.0 if i % 2 else -1.0] * len(s.spans)) for i, s in enumerate(read)]


def make_learner(model: str) -> VerlLearner:
    from services.trainer.learner import VerlLearner

    return VerlLearner(Path(model), LearnerSettings(optim=OptimConfig(lr=1e-3)))


def with_experts(sample: Sample, experts: npt.NDArray[Any]) -> Sample:
    file = io.BytesIO()
    np.save(file, experts)
    return replace(sample, experts=file.getvalue())


def read(sample: Sample) -> npt.NDArray[np.uint8]:
    found: npt.NDArray[np.uint8] = np.load(io.BytesIO(sample.experts))
    return found


async def test_a_step_replays_what_the_engine_chose(world: World) -> None:
    samples = await samples_of(world)
    assert all(read(s).shape == (len(s.ids) - 1, LAYERS, CHOSEN) for s in samples)
    learner = make_learner(world.config.engine.model)
    update = learner.update(samples)
    assert max(update.logprob_gaps) < CLOSE
    assert update.metrics["actor/grad_norm"] > 0
    others = [with_experts(s, (read(s) + 1) % EXPERTS) for s in samples]
    assert min(make_learner(world.config.engine.model).update(others).logprob_gaps) > 10 * CLOSE  # what is on record is used


async def test_pushed_experts_are_served(moe_engine: EngineConfig, tmp_path: Path) -> None:
    engine, folder = VllmEngine(moe_engine.url, moe_engine.served_name), Path(moe_engine.model).with_name("weights")
    learner, base = make_learner(moe_engine.model), make_learner(moe_engine.model)
    for _ in range(20):
        learner.sft_step([Sample(ids, 1, [1] * 31, [0.0] * 31) for ids in PROBE], 3e-3)
    await engine.open_transfer()
    assert await gap(learner, engine) > CLOSE
    for version, served in enumerate([learner, base, learner, base], 1):
        file = folder / f"v{version}.safetensors"
        served.export(file)
        await engine.load(file, checksum(file), version)
        assert await gap(served, engine) < CLOSE / 10
    (folder / "torn.safetensors").write_bytes(file.read_bytes()[:-8])
    with pytest.raises(EngineError, match="/update_weights"):
        await engine.load(folder / "torn.safetensors", checksum(folder / "torn.safetensors"), 9)
    assert await gap(base, engine) < CLOSE / 10
    await engine.close()


async def gap(learner: VerlLearner, engine: VllmEngine) -> float:
    """Largest difference of log-probs (nats) on the probes."""
    return largest_gap(learner.log_probs(PROBE), await engine.log_probs(PROBE))


def test_experts_that_cannot_be_are_refused() -> None:
    import torch

    from services.trainer.verl.routing import FREE, routed_experts

    sample, mask = Sample([1, 2, 3], 1, [1, 1], [-1.0, -1.0]), torch.ones(2, 3, dtype=torch.int64)
    good = with_experts(sample, np.ones((2, LAYERS, CHOSEN), np.uint8))
    batch = routed_experts([good, sample], mask)
    assert batch is not None
    assert (batch[0, :2] == 1).all()
    assert (batch[0, 2] == FREE).all()
    assert (batch[1] == FREE).all()
    assert routed_experts([sample, sample], mask) is None
    wrong = [
        replace(sample, experts=b"garbage"), with_experts(sample, np.ones((2, 2), np.uint8)),
        with_experts(sample, np.ones((4, LAYERS, CHOSEN), np.uint8)), with_experts(sample, np.ones((2, 1, 1), np.float32)),
        with_experts(sample, np.ones((2, LAYERS, CHOSEN + 1), np.uint8)),
    ]  # fmt: skip
    for each in wrong:
        with pytest.raises(FidelityError):
            routed_experts([good, each], mask)

"""Rollouts with images: recorded by the real proxy in front of a real vLLM, trained by the real learner."""

from __future__ import annotations

import base64
import io
import random
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from services.collector.assemble import assemble
from services.trainer.batch.advantage import credit
from services.trainer.batch.samples import Sample, completed, read_vote, referred
from services.trainer.ports import LearnerSettings
from shared.config import AlgorithmConfig, EngineConfig, OptimConfig
from shared.errors import ConfigError, FidelityError
from shared.events import BlobRef, Media, Trajectory
from shared.packing import unpack_ids
from tests.engine.scripted import ScriptedEngine
from tests.unit.proxy.world import World, living_world

if TYPE_CHECKING:
    from services.trainer.learner import VerlLearner

pytestmark = [pytest.mark.real, pytest.mark.slow, pytest.mark.timeout(900), pytest.mark.filterwarnings("ignore")]

CLOSE = 1e-3
"""Nats that log-probs of learner and engine may differ by."""
Json = dict[str, Any]


def picture(seed: int, width: int) -> bytes:
    """Noise, as PNG."""
    from PIL import Image

    draw, file = random.Random(seed), io.BytesIO()
    Image.frombytes("RGB", (width, 40), draw.randbytes(width * 40 * 3)).save(file, "PNG")
    return file.getvalue()


def shown(*pictures: bytes) -> Json:
    """A user's message with pictures."""
    urls = ["data:image/png;base64," + base64.b64encode(p).decode() for p in pictures]
    parts = [{"type": "image_url", "image_url": {"url": url}} for url in urls]
    return {"role": "user", "content": [{"type": "text", "text": "Look: "}, *parts]}


@pytest.fixture
async def world(scripted_engine: ScriptedEngine, vision_engine: EngineConfig) -> AsyncIterator[World]:
    async with living_world(scripted_engine, about=vision_engine) as world:
        yield world


async def rollout(world: World, number: int, max_tokens: int = 12) -> Trajectory:
    """Two calls, each with a new picture, assembled as the collector does."""
    session = f"r{number}-a1"
    base = await world.open(session, max_tokens=max_tokens, seed=number, temperature=1.0)
    talk = [shown(picture(2 * number, 70))]
    status, answer = await world.chat(base, talk)
    assert status == 200, answer
    talk += [answer["choices"][0]["message"], shown(picture(2 * number + 1, 100))]
    status, answer = await world.chat(base, talk)
    assert status == 200, answer
    await world.seal(session)
    (seal,) = [s for s in world.seals if s.session_id == session]
    made = assemble([r for r in world.records if r.session_id == session], seal, max_row_tokens=4096)
    return Trajectory(
        rollout_id=f"r{number}", attempt=1, task="look", harness="test", reward=float(number % 2), calls=made.calls,
        rows=made.rows, tokens=made.tokens,
    )  # fmt: skip


async def samples_of(world: World, trajectories: list[Trajectory]) -> list[Sample]:
    """As the trainer reads them: what rows refer to is in the store."""
    samples = credit([[read_vote(t) for t in trajectories]], AlgorithmConfig())
    hashes = {sha for s in samples for sha in referred(s)}
    beside = {sha: await world.blobs.get(BlobRef(key=sha, size=0, sha256=sha)) for sha in hashes}
    return [completed(s, beside) for s in samples]


def make_learner(model: str) -> VerlLearner:
    from services.trainer.learner import VerlLearner

    return VerlLearner(Path(model), LearnerSettings(optim=OptimConfig(lr=1e-3)))


async def test_a_step_on_recorded_images(world: World) -> None:
    trajectories = [await rollout(world, n) for n in range(2)]
    samples = await samples_of(world, trajectories)
    assert sum(len(s.media) for s in samples) == sum(len(s.pictures) for s in samples) >= 4
    learner = make_learner(world.config.engine.model)
    update = learner.update(samples)
    assert max(update.logprob_gaps) < CLOSE
    assert update.metrics["actor/grad_norm"] > 0
    others = [replace(s, pictures=[picture(99, 70 if i % 2 == 0 else 100) for i in range(len(s.pictures))]) for s in samples]
    assert min(make_learner(world.config.engine.model).update(others).logprob_gaps) > 10 * CLOSE  # the pictures count


async def test_images_that_are_not_where_the_placeholders_are_are_refused(world: World) -> None:
    from services.trainer.verl.vision import Vision

    vision = Vision(Path(world.config.engine.model))
    (sample, *_) = await samples_of(world, [await rollout(world, 8), await rollout(world, 9)])
    shifted = [Media(sha256=m.sha256, start=m.start + 1, length=m.length) for m in sample.media]
    wrong = [
        replace(sample, media=shifted), replace(sample, pictures=sample.pictures[1:]), replace(sample, media=(), pictures=()),
        replace(sample, pictures=[b"no picture"] * len(sample.pictures)),
        replace(sample, pictures=[picture(1, 400)] * len(sample.pictures)),
    ]  # fmt: skip
    assert vision.inputs(sample) is not None
    for each in wrong:
        with pytest.raises(FidelityError):
            vision.inputs(each)


async def test_a_sampled_token_that_begins_images_is_a_token_like_others(world: World) -> None:
    from services.trainer.verl.vision import Vision

    vision = Vision(Path(world.config.engine.model))
    (sample, *_) = await samples_of(world, [await rollout(world, 10), await rollout(world, 11)])
    inputs, begins = vision.inputs(sample), sample.ids[sample.media[0].start - 1]
    plain, sampled = (vision.positions([*sample.ids, token, 5, token], inputs) for token in (6, begins))
    assert plain.tolist() == sampled.tolist()


async def test_a_call_that_sampled_a_placeholder_is_not_trained_and_the_others_are(world: World) -> None:
    from services.proxy.model import placeholder_tokens
    from services.trainer.verl.vision import Vision

    vision, placeholders = Vision(Path(world.config.engine.model)), placeholder_tokens(world.config.engine.model)
    made: list[Trajectory] = []
    masked = trained = 0
    while not (masked and trained):  # one token in 160 is a placeholder
        assert len(made) < 60
        made.append(await rollout(world, 100 + len(made), max_tokens=60))
        masked += made[-1].tokens.reasons.get("stray_media", 0)
        trained += made[-1].tokens.trained
    stray = [r for r in world.records if r.stray_media]
    assert stray == [r for r in world.records if not placeholders.isdisjoint(unpack_ids(r.completion))]
    assert masked == sum(len(r.completion) // 4 for r in stray)
    for sample in await samples_of(world, made):
        vision.inputs(sample)  # raises where a placeholder is no image's


def test_a_model_whose_images_are_not_understood_is_refused(tmp_path: Path) -> None:
    from services.trainer.verl.vision import is_vision

    (tmp_path / "config.json").write_text('{"model_type": "llava", "vision_config": {}}')
    with pytest.raises(ConfigError, match="qwen3_vl"):
        is_vision(tmp_path)

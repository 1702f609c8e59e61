"""Learners on veRL's real worker, and batches that they learn from."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from safetensors.torch import load_file

from services.trainer.batch.samples import Sample, Vote
from services.trainer.ports import LearnerSettings
from shared.config import AlgorithmConfig
from shared.events import Span

if TYPE_CHECKING:
    from services.trainer.learner import VerlLearner

MakeLearner = Callable[..., "VerlLearner"]
EXACT = 1e-5
"""Nats that fp32 log-probs of two implementations may differ by."""
CONFIG, UNSCALED, DISCOUNTED = AlgorithmConfig(), AlgorithmConfig(norm_adv_by_std_in_grpo=False), AlgorithmConfig(gamma=0.9)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from tests.engine.tied_model import make_tied_model

    return make_tied_model(tmp_path_factory.mktemp("tied"))


@pytest.fixture
def learner(model: Path) -> MakeLearner:
    from services.trainer.learner import VerlLearner

    return lambda folder=model, **settings: VerlLearner(folder, learner_settings(settings))


def learner_settings(changed: Mapping[str, Any]) -> LearnerSettings:
    return msgspec.convert({**changed, "optim": {"lr": 1e-3, **changed.get("optim", {})}}, LearnerSettings)


def ids(length: int, seed: int) -> list[int]:
    rng = random.Random(seed)
    return [rng.randrange(256) for _ in range(length)]


def span(seq: int, start: int, end: int, after: int = 0) -> Span:
    return Span(seq=seq, start=start, end=end, after=after)


def on_policy(learner: VerlLearner, samples: Sequence[Sample]) -> list[Sample]:
    """Samples whose log-probs are the learner's own."""
    rows = learner.log_probs([s.ids for s in samples])
    return [replace(s, logprobs=row[s.prompt_len - 1 :]) for s, row in zip(samples, rows, strict=True)]


def merged() -> list[list[Vote]]:
    """A group of two trajectories; the first is one row of two calls, 5 and 4 tokens, with 3 tokens of a tool between them."""
    two_calls = Sample(ids(20, 1), 8, [1] * 5 + [0] * 3 + [1] * 4, [-1.0] * 12, [span(1, 8, 13, 1), span(2, 16, 20)])
    one_call = Sample(ids(12, 2), 6, [1] * 6, [-1.0] * 6, [span(1, 6, 12)])
    return [[Vote(1.0, [two_calls]), Vote(0.0, [one_call])]]


def unmerged() -> list[list[Vote]]:
    """The same group with one row per call."""
    ((first, second),) = merged()
    whole = first.samples[0].ids
    calls = [
        Sample(whole[:13], 8, [1] * 5, [-1.0] * 5, [span(1, 8, 13, 1)]),
        Sample(whole, 16, [1] * 4, [-1.0] * 4, [span(2, 16, 20)]),
    ]
    return [[Vote(1.0, calls), second]]


def weights(agent: VerlLearner, file: Path) -> dict[str, Any]:
    agent.export(file)
    loaded: dict[str, Any] = load_file(file)
    return loaded

"""Steps of the trainer, and veRL's bare calls on the same tensors: in turn, so that a noisy machine is noisy for both."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from services.trainer.batch.advantage import credit
from services.trainer.batch.samples import read_vote
from services.trainer.learner import VerlLearner
from services.trainer.ports import LearnerSettings
from shared.config import AlgorithmConfig
from shared.events import GroupCompleted, decode
from tests.bench.trainer.bare import BareCall, catching, timing
from tests.bench.trainer.groups import Shape, groups
from tests.bench.trainer.report import Phases


class Steps:
    """Takes the same kind of step again and again.

    Args:
        learner: that learns.
        config: rewards to weights.
        shape: of each step.
    """

    def __init__(self, learner: VerlLearner, config: AlgorithmConfig, shape: Shape) -> None:
        self._learner, self._config, self._shape = learner, config, shape
        self._calls: list[BareCall] = []

    def warm_up(self) -> None:
        """A step that does not count; what it asks of veRL is what is measured bare."""
        with catching() as self._calls:
            self.ours(0)

    def ours(self, seed: int) -> Phases:
        """One step: from the messages of its groups to new weights."""
        bodies, phases, began, cpu = groups(self._shape, seed), {}, time.monotonic(), time.process_time()
        votes = [[read_vote(t) for t in _completed(body).trajectories] for body in bodies]
        phases["read"], began = _lap(began)
        samples = credit(votes, self._config)
        phases["weigh"], began = _lap(began)
        with timing() as seconds:
            self._learner.update(samples)
        phases["update"], _ = _lap(began)
        return Phases(verl=sum(seconds), cpu=time.process_time() - cpu, **phases)

    def bare(self) -> tuple[dict[str, float], float]:
        """Seconds by veRL's name of the call, and CPU seconds of all of them."""
        taken, all_cpu = dict[str, float](), 0.0
        for call in self._calls:
            seconds, cpu = call.again()
            taken[call.name] = taken.get(call.name, 0.0) + seconds
            all_cpu += cpu
        return taken, all_cpu


def make_learner(model: Path, threads: int) -> VerlLearner:
    """A learner with the settings of a run's."""
    return VerlLearner(model, LearnerSettings(threads=threads))


def _completed(body: bytes) -> GroupCompleted:
    message: Any = decode(body)
    assert isinstance(message, GroupCompleted), f"a group's message is a {type(message).__name__}"
    return message


def _lap(began: float) -> tuple[float, float]:
    now = time.monotonic()
    return now - began, now

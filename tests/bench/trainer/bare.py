"""veRL's own calls: caught while a learner makes them, and made again with the same tensors and nothing around them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tensordict import TensorDict
from verl.workers.engine_workers import TrainingWorker

NAMES = ("infer_batch", "train_batch")


@dataclass(frozen=True, slots=True)
class BareCall:
    """A call of veRL's worker, with what it takes to make it again."""

    name: str
    worker: TrainingWorker
    loss: Callable[..., Any] | None
    batch: TensorDict

    def again(self) -> tuple[float, float]:
        """Makes the call on a copy of its tensors. Returns seconds, and CPU seconds; the copy is not counted."""
        batch = self.batch.clone()
        self.worker.set_loss_fn(self.loss)
        began, cpu = time.monotonic(), time.process_time()
        getattr(self.worker, self.name)(batch)
        return time.monotonic() - began, time.process_time() - cpu


@contextmanager
def catching() -> Iterator[list[BareCall]]:
    """Notes every call that is made to veRL's workers meanwhile."""
    caught: list[BareCall] = []

    def noting(name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        def call(worker: TrainingWorker, batch: TensorDict) -> Any:
            caught.append(BareCall(name, worker, worker.loss_fn, batch.clone()))
            return original(worker, batch)

        return call

    with _replaced(noting):
        yield caught


@contextmanager
def timing() -> Iterator[list[float]]:
    """Notes the seconds of every call that is made to veRL's workers meanwhile."""
    seconds: list[float] = []

    def timed(name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        def call(worker: TrainingWorker, batch: TensorDict) -> Any:
            began = time.monotonic()
            answer = original(worker, batch)
            seconds.append(time.monotonic() - began)
            return answer

        return call

    with _replaced(timed):
        yield seconds


@contextmanager
def _replaced(made_of: Callable[[str, Callable[..., Any]], Callable[..., Any]]) -> Iterator[None]:
    originals = {name: getattr(TrainingWorker, name) for name in NAMES}
    for name, original in originals.items():
        setattr(TrainingWorker, name, made_of(name, original))
    try:
        yield
    finally:
        for name, original in originals.items():
            setattr(TrainingWorker, name, original)

"""veRL's own calls: caught while a learner makes them, and made again with the same tensors and nothing around them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
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

    def again(self) -> float:
        """Makes the call on a copy of its tensors. Returns seconds; the copy is not counted."""
        batch = self.batch.clone()
        self.worker.set_loss_fn(self.loss)
        began = time.monotonic()
        getattr(self.worker, self.name)(batch)
        return time.monotonic() - began


@dataclass
class Caught:
    """Calls in their order, and the seconds that they took."""

    calls: list[BareCall] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)


@contextmanager
def catching() -> Iterator[Caught]:
    """Notes every call that is made to veRL's workers meanwhile."""
    caught = Caught()
    originals = {name: getattr(TrainingWorker, name) for name in NAMES}
    for name, original in originals.items():
        setattr(TrainingWorker, name, _noting(name, original, caught))
    try:
        yield caught
    finally:
        for name, original in originals.items():
            setattr(TrainingWorker, name, original)


def _noting(name: str, original: Callable[..., Any], caught: Caught) -> Callable[..., Any]:
    def call(worker: TrainingWorker, batch: TensorDict) -> Any:
        caught.calls.append(BareCall(name, worker, worker.loss_fn, batch.clone()))
        began = time.monotonic()
        answer = original(worker, batch)
        caught.seconds.append(time.monotonic() - began)
        return answer

    return call

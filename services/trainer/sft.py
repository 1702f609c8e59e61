"""Warm start: supervised steps on token rows before RL, with a result that is kept and found again.

Importing this module is cheap; the learner comes from a factory.
"""

from __future__ import annotations

import hashlib
import json
import random
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from services.trainer.model import vocab_size
from services.trainer.ports import LearnerFactory, LearnerSettings
from services.trainer.samples import Sample
from services.trainer.sft_rows import read_rows
from shared.config import WarmStartConfig
from shared.errors import ConfigError

WARM_UP_STEPS = 20
FINAL_LR = 0.1
"""Of the peak, at the last step."""

Progress = Callable[[int, float], None]
"""Called after every step with its number, from 1, and its loss."""


@dataclass(frozen=True, slots=True)
class WarmStart:
    """A warm start.

    Attributes:
        model: folder of the model to start from.
        config: what to do.
        settings: of the learner; its learning rate and optimizer become the warm start's own.
        folder: gets the result where no cache is configured.
    """

    model: Path
    config: WarmStartConfig
    settings: LearnerSettings
    folder: Path

    def result(self) -> Path:
        """Folder of the result: named by a hash of all that it depends on, so that it is never taken for another's."""
        files = {f.name: _file_hash(f) for f in sorted(self.model.iterdir()) if f.is_file()}
        s, optim = self.settings, msgspec.structs.astuple(self._settings.optim)
        settings = [s.seed, optim, s.actor.grad_clip, self.config.steps, self.config.batch]
        text = json.dumps([_file_hash(Path(self.config.rows)), files, settings])
        base = Path(self.config.cache) if self.config.cache else self.folder
        return base / f"warm-{hashlib.sha256(text.encode()).hexdigest()[:16]}"

    @property
    def _settings(self) -> LearnerSettings:
        module, _, name = self.config.optimizer.partition(":")
        optim = msgspec.structs.replace(self.settings.optim, lr=self.config.lr, optimizer_impl=module, optimizer=name)
        return replace(self.settings, optim=optim)

    def run(self, factory: LearnerFactory, progress: Progress) -> Path:
        """Trains unless the result is there already. Returns its folder, which transformers can load.

        Raises:
            ConfigError: the rows cannot be read or do not fit the model.
        """
        target = self.result()
        if target.is_dir():
            return target
        rows = read_rows(Path(self.config.rows), vocab_size(self.model), self.settings.actor.ppo_max_token_len_per_gpu)
        learner = factory(self.model, self._settings)
        batches = draw_batches(rows, self.config.batch, self.settings.seed)
        for step in range(1, self.config.steps + 1):
            loss = learner.sft_step(next(batches), learning_rate(step, self.config.steps, self.config.lr))
            progress(step, loss)
        put(learner.save_model, target)
        return target


def put(save: Callable[[Path], None], target: Path) -> None:
    """Saves under another name first; of several runs that make the same result at once, the first one's stays."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=f"{target.name}.", ignore_cleanup_errors=True) as scratch:
        made = Path(scratch, "model")
        save(made)
        try:
            made.rename(target)
        except OSError:
            if not target.is_dir():
                raise


def learning_rate(step: int, steps: int, peak: float) -> float:
    """Linear warm-up times linear decay, for a step counted from 1."""
    return peak * min(1.0, step / WARM_UP_STEPS) * (1 - (1 - FINAL_LR) * (step - 1) / steps)


def draw_batches(rows: Sequence[Sample], size: int, seed: int) -> Iterator[list[Sample]]:
    """Batches without end: all rows once in a random order, then again in another."""
    rng = random.Random(seed)
    pool: list[Sample] = []
    while True:
        while len(pool) < size:
            pool += rng.sample(rows, len(rows))
        yield pool[:size]
        pool = pool[size:]


def _file_hash(file: Path) -> str:
    try:
        with file.open("rb") as f:
            return hashlib.file_digest(f, "sha256").hexdigest()
    except OSError as e:
        raise ConfigError(f"{file}: {e.strerror}") from None

"""Supervised training, before RL or instead of it, with a result that is kept and found again.

Importing this module is cheap; the learner comes from a factory.
"""

from __future__ import annotations

import hashlib
import json
import math
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path

import msgspec

from services.trainer.batch.samples import Sample
from services.trainer.model import vocab_size
from services.trainer.ports import Learner, LearnerFactory, LearnerSettings
from services.trainer.sft.results import put
from services.trainer.sft.rows import Limits, Rows, read_rows, rows_file
from shared.config import WarmStartConfig
from shared.errors import ConfigError

FILE = "sft.json"
"""Beside the result's weights: what it was made from, and its losses."""
_CHUNK = 64
"""Rows that are measured at once."""
_NOT_DECISIVE = ("rows", "cache", "test_freq")

Progress = Callable[[int, int, str], None]
"""Called after every step with its number, from 1, the number of steps, and a text for a person."""


class Measured(msgspec.Struct, frozen=True):
    """A mean loss per trained token (nats), after so many steps."""

    step: int
    loss: float


class SftReport(msgspec.Struct, kw_only=True):
    """`sft.json`.

    Attributes:
        rows: file that was learned from.
        steps: optimizer steps.
        trained: rows that were learned from.
        held: rows that the loss was measured on.
        tokens: trained tokens in the rows that were learned from.
        refused: rows or conversations that were left out, per reason.
        loss: of each step's batch, before the step.
        val_loss: of the rows that were held back.
    """

    rows: str
    steps: int
    trained: int
    held: int
    tokens: int
    refused: dict[str, int]
    loss: list[Measured] = []
    val_loss: list[Measured] = []


@dataclass(frozen=True, slots=True)
class WarmStart:
    """Supervised training of a model.

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
        """Folder of the result: named by a hash of all that it depends on, so that it is never taken for another's.

        Raises:
            ConfigError: there are no such rows.
        """
        files = {f.name: _file_hash(f) for f in sorted(self.model.iterdir()) if f.is_file()}
        s, optim = self.settings, msgspec.structs.astuple(self._settings.optim)
        own = {k: v for k, v in msgspec.structs.asdict(self.config).items() if k not in _NOT_DECISIVE}
        settings = [s.seed, optim, s.actor.grad_clip, s.actor.ppo_max_token_len_per_gpu, own]
        settings += [msgspec.structs.astuple(s.lora)] if s.lora.lora_rank else []
        text = json.dumps([_file_hash(rows_file(self.config.rows)), files, settings])
        base = Path(self.config.cache) if self.config.cache else self.folder
        return base / f"warm-{hashlib.sha256(text.encode()).hexdigest()[:16]}"

    @property
    def _settings(self) -> LearnerSettings:
        module, _, name = self.config.optimizer.partition(":")
        optim = msgspec.structs.replace(self.settings.optim, lr=self.config.lr, optimizer_impl=module, optimizer=name)
        actor = msgspec.structs.replace(self.settings.actor, use_kl_loss=False)  # no reference model is needed
        return replace(self.settings, actor=actor, optim=optim)

    def run(self, factory: LearnerFactory, progress: Progress) -> Path:
        """Trains unless the result is there already. Returns its folder, which transformers can load.

        Raises:
            ConfigError: the rows cannot be read or do not fit the model.
        """
        target = self.result()
        if target.is_dir():
            return target
        limits = Limits(vocab_size(self.model), self.settings.actor.ppo_max_token_len_per_gpu)
        rows = read_rows(rows_file(self.config.rows), self.model, limits, self.config.min_reward)
        lesson = _Lesson(self, rows)
        with closing(factory(self.model, self._settings)) as learner:
            lesson.teach(learner, progress)

            def save(folder: Path) -> None:
                learner.save_model(folder)
                (folder / FILE).write_bytes(msgspec.json.format(msgspec.json.encode(lesson.report)) + b"\n")

            put(save, target)
        return target


@dataclass(slots=True)
class _Lesson:
    """One supervised training, from rows to losses."""

    warm: WarmStart
    rows: Rows
    report: SftReport = field(init=False)
    _train: list[Sample] = field(init=False)
    _held: list[Sample] = field(init=False)

    def __post_init__(self) -> None:
        config, seed = self.warm.config, self.warm.settings.seed
        self._train, self._held = self.rows.split(config.val_ratio, seed)
        if not self._train or (config.val_ratio and not self._held):
            raise ConfigError(
                f"trainer.warm_start.val_ratio = {config.val_ratio:g} leaves {len(self._train)} rows to learn from and "
                f"{len(self._held)} to measure on; both need some"
            )
        self.report = SftReport(
            rows=config.rows, steps=steps_of(config, len(self._train)), trained=len(self._train), held=len(self._held),
            tokens=sum(s.trained for s in self._train), refused=dict(self.rows.refused),
        )  # fmt: skip

    def teach(self, learner: Learner, progress: Progress) -> None:
        config, steps = self.warm.config, self.report.steps
        batches = draw_batches(self._train, config.batch, self.warm.settings.seed)
        self._measure(learner, 0)
        for step in range(1, steps + 1):
            loss = learner.sft_step(next(batches), learning_rate(step, steps, config))
            self.report.loss.append(Measured(step, loss))
            if step == steps or (config.test_freq and step % config.test_freq == 0):
                self._measure(learner, step)
            val = f", held back {self.report.val_loss[-1].loss:.3f}" if self._held else ""
            progress(step, steps, f"loss {loss:.3f}{val}")

    def _measure(self, learner: Learner, step: int) -> None:
        if self._held:
            self.report.val_loss.append(Measured(step, mean_loss(learner, self._held)))


def steps_of(config: WarmStartConfig, rows: int) -> int:
    """Optimizer steps that a configuration means for so many rows."""
    return max(1, math.ceil(config.epochs * rows / config.batch)) if config.epochs else config.steps


def mean_loss(learner: Learner, samples: Sequence[Sample]) -> float:
    """Mean negative log-prob (nats) of all trained tokens."""
    total = 0.0
    for chunk in (samples[i : i + _CHUNK] for i in range(0, len(samples), _CHUNK)):
        for s, row in zip(chunk, learner.log_probs([s.ids for s in chunk]), strict=True):
            total -= sum(p for p, m in zip(row[s.prompt_len - 1 :], s.mask, strict=True) if m)
    return total / sum(s.trained for s in samples)


def learning_rate(step: int, steps: int, config: WarmStartConfig) -> float:
    """Linear warm-up times the schedule, for a step counted from 1."""
    done = (step - 1) / steps
    fall = {"linear": done, "cosine": (1 - math.cos(math.pi * done)) / 2, "constant": 0.0}[config.lr_scheduler_type]
    rise = min(1.0, step / config.lr_warmup_steps) if config.lr_warmup_steps else 1.0
    return config.lr * rise * (1 - (1 - config.min_lr_ratio) * fall)


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

"""Trackers of experiments (wandb, tensorboard, ...) beside `metrics.jsonl`, through veRL's `Tracking`.

Each works in a thread of its own and is told in order. What goes wrong with one is a warning: no run waits for a tracker, or
fails because of it.
"""

from __future__ import annotations

import logging
import os
import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Protocol

import msgspec

from shared.config import Config
from shared.errors import ConfigError

log = logging.getLogger(__name__)

CONSOLE = "console"
"""What the trainer logs of each step in any case."""
FINISH_S = 30.0
"""How long the end of a run waits for all trackers to have sent what they have."""

Metrics = Mapping[str, float]


class Tracker(Protocol):
    """One tracker that is open."""

    def log(self, data: dict[str, float], step: int) -> None:
        """Metrics of a step."""
        ...

    def finish(self, exit_code: int = 0) -> None:
        """Sends what there is; 0 where the run reached its end."""
        ...


Open = Callable[[str], Tracker]
"""Opens the tracker of a name, in the thread that will use it."""


def check_trackers(config: Config) -> None:
    """Raises ConfigError where a tracker is asked for that is not installed."""
    if missing := [name for name in wanted(config) if find_spec(name) is None]:
        raise ConfigError(
            f"trainer.logger names {', '.join(missing)}, not installed: pip install {' '.join(missing)}, or leave it out "
            f"(metrics.jsonl is written in any case)"
        )


def wanted(config: Config) -> list[str]:
    """Names of the trackers that are asked for."""
    return [name for name in dict.fromkeys(config.trainer.logger) if name != CONSOLE]


class Trackers:
    """The trackers of a run.

    Args:
        names: which.
        open_: opens one.
    """

    def __init__(self, names: Sequence[str], open_: Open) -> None:
        self._lines = [_Line(name, open_) for name in names]

    def log(self, step: int, metrics: Metrics) -> None:
        """Tells all of a step's metrics; returns at once."""
        for line in self._lines:
            line.tell(step, dict(metrics))

    def finish(self, ok: bool, timeout_s: float = FINISH_S) -> None:
        """Ends all; those that are not done in time are given up."""
        until = time.monotonic() + timeout_s
        for line in self._lines:
            line.end(ok)
        for line in self._lines:
            line.join(max(0.0, until - time.monotonic()))


class _Line:
    """One tracker, in a thread that a process does not wait for at its end."""

    def __init__(self, name: str, open_: Open) -> None:
        self._name, self._open = name, open_
        self._told: queue.SimpleQueue[tuple[int, dict[str, float]] | bool] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name=f"tracker {name}", daemon=True)
        self._thread.start()

    def tell(self, step: int, metrics: dict[str, float]) -> None:
        self._told.put((step, metrics))

    def end(self, ok: bool) -> None:
        self._told.put(ok)

    def join(self, timeout_s: float) -> None:
        self._thread.join(timeout_s)
        if self._thread.is_alive():
            log.warning("%s was not done in time and is given up; metrics.jsonl has all of it", self._name)

    def _work(self) -> None:
        try:
            tracker = self._open(self._name)
        except BaseException as e:  # whatever a foreign library does where it finds no server or no key, sys.exit included
            log.warning("%s could not be started, and gets nothing: %s", self._name, _short(e))
            return
        while not isinstance(told := self._told.get(), bool):
            self._try(lambda told=told: tracker.log(told[1], told[0]))  # type: ignore[misc]
        self._try(lambda: tracker.finish(0 if told else 1))

    def _try(self, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception as e:
            log.warning("%s did not take something: %s", self._name, _short(e))


def open_with_verl(config: Config, folder: Path) -> Open:
    """veRL's trackers, with files in the run folder where their own environment variables do not say otherwise."""

    def open_(name: str) -> Tracker:
        from verl.utils.tracking import Tracking

        for variable, value in places(config.run.id, folder).items():
            os.environ.setdefault(variable, value)
        trainer = config.trainer
        tracker: Tracker = Tracking(
            trainer.project_name, trainer.experiment_name or config.run.id, default_backend=[name],
            config=msgspec.to_builtins(config),
        )  # fmt: skip
        return tracker

    return open_


def places(run_id: str, folder: Path) -> dict[str, str]:
    """Where trackers put their files, and how wandb finds a run again that goes on."""
    return {
        "TENSORBOARD_DIR": str(folder / "tensorboard"),
        "MLFLOW_TRACKING_URI": f"sqlite:///{folder / 'mlflow.db'}",
        "WANDB_DIR": str(folder),
        "WANDB_RUN_ID": run_id,
        "WANDB_RESUME": "allow",
    }


def _short(error: BaseException) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"

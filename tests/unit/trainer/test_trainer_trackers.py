"""Trackers: told in order, never waited for, never a reason to fail."""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import pytest

from services.trainer.books.trackers import Tracker, Trackers, check_trackers, places, wanted
from shared.config import Config
from shared.errors import ConfigError
from tests.waiting import until


@dataclass
class Kept:
    """A tracker that remembers; `broken` steps fail, and with a `lock` it waits for that before all else."""

    broken: tuple[int, ...] = ()
    lock: threading.Event | None = None
    told: list[tuple[int, dict[str, float]]] = field(default_factory=list)
    code: int | None = None

    def log(self, data: dict[str, float], step: int) -> None:
        if self.lock:
            self.lock.wait()
        if step in self.broken:
            raise RuntimeError("no\nconnection")
        self.told.append((step, data))

    def finish(self, exit_code: int = 0) -> None:
        self.code = exit_code


def config(*names: str) -> Config:
    return msgspec.convert({"trainer": {"logger": list(names)}}, Config)


@pytest.mark.parametrize(("ok", "code"), [(True, 0), (False, 1)])
def test_all_are_told_in_order_and_ended(ok: bool, code: int) -> None:
    kept = {name: Kept() for name in ("a", "b")}
    trackers = Trackers(list(kept), kept.__getitem__)
    for step in range(20):
        trackers.log(step, {"x": step})
    trackers.finish(ok)
    for one in kept.values():
        assert one.told == [(step, {"x": step}) for step in range(20)]
        assert one.code == code


def test_one_that_fails_at_a_step_gets_the_next_and_others_all(caplog: pytest.LogCaptureFixture) -> None:
    kept = {"bad": Kept(broken=(1,)), "good": Kept()}
    trackers = Trackers(list(kept), kept.__getitem__)
    for step in range(3):
        trackers.log(step, {})
    trackers.finish(True)
    assert [[step for step, _ in one.told] for one in kept.values()] == [[0, 2], [0, 1, 2]]
    assert "bad did not take something: RuntimeError: no connection" in caplog.text


@pytest.mark.parametrize("error", [OSError("no network"), SystemExit(1)])
def test_one_that_cannot_be_opened_is_left_out(caplog: pytest.LogCaptureFixture, error: BaseException) -> None:
    def open_(name: str) -> Tracker:
        raise error

    trackers = Trackers(["gone"], open_)
    trackers.log(1, {})
    trackers.finish(True)
    assert "gone could not be started, and gets nothing" in caplog.text


async def test_nobody_waits_for_one_that_hangs(caplog: pytest.LogCaptureFixture) -> None:
    kept = Kept(lock=threading.Event())
    trackers = Trackers(["slow"], lambda name: kept)
    began = time.monotonic()
    for step in range(1000):
        trackers.log(step, {})
    with caplog.at_level(logging.WARNING):
        trackers.finish(True, timeout_s=0.1)
    assert time.monotonic() - began < 2
    assert "slow was not done in time" in caplog.text
    assert kept.lock
    kept.lock.set()
    await until(lambda: kept.code == 0)


def test_what_is_not_installed_is_named_before_the_run_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("services.trainer.books.trackers.find_spec", lambda name: None if name == "mlflow" else object())
    check_trackers(config("console", "wandb"))
    with pytest.raises(ConfigError, match=r"trainer\.logger names mlflow, not installed: pip install mlflow"):
        check_trackers(config("wandb", "mlflow"))


def test_the_console_is_no_tracker_and_nothing_is_named_twice() -> None:
    assert wanted(config("console", "wandb", "wandb")) == ["wandb"]
    assert wanted(Config()) == []


def test_wandb_finds_a_run_again() -> None:
    assert {places("r1", Path("/runs/r1"))[name] for name in ("WANDB_RUN_ID", "WANDB_RESUME")} == {"r1", "allow"}

"""The settings of a run, as it left them for whoever goes on with it."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
import pytest

from services.dev.resume import go_on_with, read_settings
from services.dev.settings_file import write_settings
from services.dev.stack import Running
from shared.config import Config, RunConfig
from shared.errors import ConfigError


@pytest.fixture
def kept(tmp_path: Path) -> Config:
    tree = {
        "run": {"id": "run-1", "root": str(tmp_path), "seed": 7}, "orchestrator": {"reward": "coin"},
        "trainer": {"steps": 5, "optim": {"betas": [0.8, 0.9]}, "pace": {"mode": "async", "max_staleness": 2}},
    }  # fmt: skip
    config = msgspec.convert(tree, Config)
    (tmp_path / "run-1").mkdir()
    write_settings(config, tmp_path / "run-1")
    return config


def test_settings_come_back_as_they_were(kept: Config, tmp_path: Path) -> None:
    assert read_settings(tmp_path, "run-1", []) == kept


def test_some_may_be_changed(kept: Config, tmp_path: Path) -> None:
    changed = read_settings(tmp_path, "run-1", ["trainer.steps=9"])
    assert changed.trainer == msgspec.structs.replace(kept.trainer, steps=9)


def test_a_run_that_is_not_there_is_said_with_those_that_are(kept: Config, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"run-2: no run to go on with; the newest under .*: run-1"):
        read_settings(tmp_path, "run-2", [])


def test_a_run_that_is_under_way_is_left_alone(kept: Config, tmp_path: Path) -> None:
    (tmp_path / "run-1" / "stack.json").write_bytes(msgspec.json.encode(Running(os.getpid(), {}, {})))
    with pytest.raises(ConfigError, match="run run-1 is under way"):
        read_settings(tmp_path, "run-1", [])


def test_a_person_is_told_how_to_go_on() -> None:
    assert go_on_with(RunConfig(id="r", root="/x")).endswith("openforge resume r --root /x")

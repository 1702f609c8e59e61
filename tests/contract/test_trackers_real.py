"""Trackers through veRL, for real: what was logged is read back from their files."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.real, pytest.mark.slow]

METRICS = [{"critic/rewards/mean": 0.25, "actor/grad_norm": 1.5}, {"critic/rewards/mean": 0.5, "val-core/t/acc/mean@4": 0.75}]
LOG = f"""
import sys
from pathlib import Path
import msgspec
from services.trainer.books.trackers import Trackers, open_with_verl
from shared.config import Config

name, folder = sys.argv[1], Path(sys.argv[2])
config = msgspec.convert({{"run": {{"id": "run-1"}}, "trainer": {{"project_name": "p"}}}}, Config)
trackers = Trackers([name], open_with_verl(config, folder))
for step, metrics in enumerate({METRICS!r}, start=1):
    trackers.log(step, metrics)
trackers.finish(True, timeout_s=100)
"""


def log_with(name: str, folder: Path) -> str:
    """Logs in a process of its own, as these libraries keep to themselves what they are; returns what it printed."""
    env = {**os.environ, "WANDB_MODE": "offline", "WANDB_SILENT": "true", "PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run(
        [sys.executable, "-c", LOG, name, str(folder)], cwd=folder, env=env, text=True, timeout=110, check=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    return done.stdout


def need(name: str) -> None:
    pytest.importorskip(name, reason=f"{name} is not installed", exc_type=ImportError)


def test_tensorboard_has_every_value_at_its_step(tmp_path: Path) -> None:
    log_with("tensorboard", tmp_path)
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(tmp_path / "tensorboard"))
    events.Reload()
    read = {tag: [(e.step, round(e.value, 6)) for e in events.Scalars(tag)] for tag in events.Tags()["scalars"]}
    assert read == {
        "critic/rewards/mean": [(1, 0.25), (2, 0.5)], "actor/grad_norm": [(1, 1.5)], "val-core/t/acc/mean@4": [(2, 0.75)],
    }  # fmt: skip


def test_wandb_keeps_a_run_of_that_id_offline(tmp_path: Path) -> None:
    need("wandb")
    out = log_with("wandb", tmp_path)
    (file,) = tmp_path.glob("wandb/offline-run-*-run-1/run-run-1.wandb")
    content = file.read_bytes()
    assert b"critic/rewards/mean" in content, out
    assert b"val-core/t/acc/mean@4" in content


def test_mlflow_keeps_them_in_the_run_folder(tmp_path: Path) -> None:
    need("mlflow")
    log_with("mlflow", tmp_path)
    import mlflow

    client = mlflow.MlflowClient(f"sqlite:///{tmp_path / 'mlflow.db'}")
    (run,) = client.search_runs([client.get_experiment_by_name("p").experiment_id])
    assert run.data.metrics["critic/rewards/mean"] == 0.5
    assert run.data.metrics["val-core/t/acc/mean_at_4"] == 0.75

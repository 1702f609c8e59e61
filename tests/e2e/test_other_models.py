"""A whole run of `openforge run` with a mixture of experts: rollouts on a real vLLM, steps on veRL, pushes between."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from services.collector.archive import FOLDER
from services.collector.archive_reader import Damage, read
from shared.events import CallRecorded
from tests.e2e.stacks import openforge
from tests.e2e.test_stack_rollouts import write_task

pytestmark = [pytest.mark.real, pytest.mark.slow, pytest.mark.timeout(1200)]

EXACT = 1e-3
"""Nats that log-probs of vLLM and veRL may differ by, before a push and after it."""
CONFIG = """
[run]
root = "{folder}/runs"
[engine]
model = "{folder}/model"
max_model_len = 512
kv_cache_mb = 64
max_num_seqs = 16
start_timeout_s = 500
args = {args}
[orchestrator]
reward = "coin"
[trainer]
harness = "{harness}"
steps = 3
groups = 2
n = 4
max_tokens = 12
eval_episodes = 0
probe_gap = {exact}
[trainer.optim]
lr = 1e-2
[tasks]
train = "{folder}/tasks"
"""


async def run(folder: Path, harness: str, args: Sequence[str]) -> tuple[dict[str, Any], list[CallRecorded]]:
    """A run of three steps: its summary, and its calls."""
    file = folder / "openforge.toml"
    file.write_text(CONFIG.format(folder=folder, args=list(args), harness=harness, exact=EXACT))
    code, out = await openforge("run", str(file), timeout_s=1000)
    assert code == 0, out
    (made,) = (folder / "runs").iterdir()
    calls = [message for message in read(made / FOLDER, Damage()) if isinstance(message, CallRecorded)]
    return json.loads((made / "summary.json").read_text()), calls


def check(summary: dict[str, Any], calls: list[CallRecorded]) -> None:
    assert len(calls) >= 24
    assert (summary["ok"], summary["steps"], summary["version"]) == (True, 3, 3), summary
    assert 0 < summary["max_logprob_gap"] < EXACT  # of the second and third step, after pushes
    assert summary["tokens_trained"] > 0


async def test_a_mixture_of_experts_learns_on_the_experts_that_the_engine_chose(tmp_path: Path) -> None:
    from tests.engine.moe_model import make_moe_model

    make_moe_model(tmp_path / "model")
    write_task(tmp_path / "tasks", "write", "cat seed.txt > out.txt", "seed")
    summary, calls = await run(tmp_path, "react", ["--enable-return-routed-experts"])
    check(summary, calls)
    assert all(call.experts for call in calls)

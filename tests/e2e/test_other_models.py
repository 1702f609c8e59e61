"""Whole runs of `openforge run` with experts, with pictures and by adapters: rollouts on a real vLLM, steps on veRL, pushes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from services.collector.archive import FOLDER
from services.collector.archive_reader import Damage, read
from services.proxy.model import placeholder_tokens
from services.trainer.journal.unpack import unpack
from shared.events import CallRecorded
from shared.packing import unpack_ids
from tests.conftest import NO_VIDEOS
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
harness_dir = "{harnesses}"
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
HARNESSES = Path(__file__).parent / "harness"


async def run(folder: Path, harness: str, args: Sequence[str], *options: str) -> tuple[dict[str, Any], list[CallRecorded]]:
    """A run of three steps: its summary, and its calls."""
    file = folder / "openforge.toml"
    file.write_text(CONFIG.format(folder=folder, args=list(args), harnesses=HARNESSES, harness=harness, exact=EXACT))
    code, out = await openforge("run", str(file), *options, timeout_s=1000)
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


@pytest.mark.long
async def test_a_model_that_sees_learns_on_the_pictures_that_it_was_shown(tmp_path: Path) -> None:
    from tests.contract.test_vision_contract import picture
    from tests.engine.vision_model import make_vision_model

    make_vision_model(tmp_path / "model")
    task = write_task(tmp_path / "tasks", "look", "true", "")
    for number, width in enumerate((70, 100)):
        (task / "environment" / f"{number}.png").write_bytes(picture(number, width))
    summary, calls = await run(tmp_path, "look", ["--limit-mm-per-prompt", NO_VIDEOS])
    check(summary, calls)
    assert all(1 <= len(call.media) <= 2 for call in calls)  # with the first one where the prompt does not go on
    assert all(medium.start >= 0 for call in calls for medium in call.media)
    placeholders = placeholder_tokens(str(tmp_path / "model"))
    sampled = [not placeholders.isdisjoint(unpack_ids(call.completion)) for call in calls]
    assert [call.stray_media for call in calls] == sampled
    assert any(sampled) or "stray_media" not in summary["token_reasons"]


@pytest.mark.long
@pytest.mark.filterwarnings("ignore")  # veRL's, when it is imported
async def test_adapters_learn_beside_a_model_and_are_all_that_is_pushed(tmp_path: Path) -> None:
    from safetensors.torch import load_file

    from tests.engine.tied_model import make_tied_model

    make_tied_model(tmp_path / "model")
    write_task(tmp_path / "tasks", "write", "cat seed.txt > out.txt", "seed")
    check(*await run(tmp_path, "react", [], "--set", "trainer.lora.lora_rank=4"))
    (made,) = (tmp_path / "runs").iterdir()
    base, pushed, final = (made / "weights" / name for name in ("push/base.safetensors", "push/v3.safetensors", "final"))
    assert pushed.stat().st_size < base.stat().st_size / 4
    assert all(".lora_" in name for name in load_file(pushed))
    unpacked, known = (load_file(folder / "model.safetensors") for folder in (unpack(made, 3), final))
    assert unpacked.keys() == known.keys()
    assert max(float((unpacked[name] - known[name]).abs().max()) for name in known) < 1e-6

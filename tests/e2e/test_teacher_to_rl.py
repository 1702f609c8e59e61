"""From a teacher to a better pupil: rollouts of a teacher behind either API, their export, a warm start on it, RL, and
evaluations of before and after. All of it as a user does it, with real vLLM and veRL; only the teacher is a script."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.careless import COLOURS, CarelessTeacher, make_tasks
from tests.e2e.stacks import openforge

pytestmark = [
    pytest.mark.real, pytest.mark.slow, pytest.mark.long, pytest.mark.timeout(1800), pytest.mark.filterwarnings("ignore"),
]  # fmt: skip

TRIES = 6
TEACHER = """
[run]
root = "{root}/runs"
[engine]
url = "{url}"
key_env = "TEACHER_KEY"
served_name = "strong-1"
[proxy]
mode = "teacher"
[tasks]
heldout = "{root}/tasks"
"""
PUPIL = """
[run]
root = "{root}/runs"
id = "pupil"
[engine]
model = "{root}/model"
max_model_len = 256
kv_cache_mb = 64
[orchestrator]
concurrency = 12
[tasks]
train = "{root}/tasks"
heldout = "{root}/tasks"
[trainer]
steps = 8
groups = 8
n = 8
max_tokens = 24
eval_episodes = 32
threads = 2
[trainer.optim]
lr = 1e-3
betas = [0.9, 0.98]
[trainer.warm_start]
rows = "{root}/rows.jsonl"
steps = 60
batch = 16
optimizer = "services.trainer.verl.muon:MuonAdamW"
"""


@pytest.fixture
async def teacher(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[CarelessTeacher]:
    made = CarelessTeacher()
    await made.start()
    monkeypatch.setenv("TEACHER_KEY", "sesame")
    yield made
    await made.stop()


async def done(*args: str, timeout_s: float = 600) -> str:
    """What a command says that does what it should."""
    code, out = await openforge(*args, timeout_s=timeout_s)
    assert code == 0, out
    return out


def read(file: Path) -> Any:
    return json.loads(file.read_text())


async def lessons(root: Path, config: Path, api: str) -> list[bytes]:
    """Conversations of the teacher behind an API, by the way of an evaluation."""
    sets = ["--set", f"engine.api={api}", "--set", f"run.id={api}"]
    await done("eval", str(config), "-n", str(TRIES), *sets)
    (whole, *_) = read(root / "runs" / api / "eval.json")["scores"]
    assert (whole["episodes"], whole["solved"]) == (4 * TRIES, 4 * TRIES // 3)
    out = await done("export", api, "--to", "sft", "--root", f"{root}/runs")
    assert f"{4 * TRIES} of {4 * TRIES} rollouts: {4 * TRIES} conversations" in out
    return (root / "runs" / api / "exports" / "sft" / "train.jsonl").read_bytes().splitlines(keepends=True)


async def test_a_pupil_of_a_careless_teacher_becomes_better_than_he_is(tmp_path: Path, teacher: CarelessTeacher) -> None:
    from examples.lookup.model import build

    build(tmp_path / "model", 0)
    make_tasks(tmp_path / "tasks")
    for name, text in (("teacher.toml", TEACHER), ("pupil.toml", PUPIL)):
        (tmp_path / name).write_text(text.format(root=tmp_path, url=teacher.url))
    rows = [line for api in ("openai", "anthropic") for line in await lessons(tmp_path, tmp_path / "teacher.toml", api)]
    (tmp_path / "rows.jsonl").write_bytes(b"".join(rows))
    asked = Counter((path, h.get("authorization") or h.get("x-api-key"), b["model"]) for path, h, b in teacher.requests)
    assert asked == dict.fromkeys(
        [("/v1/chat/completions", "Bearer sesame", "strong-1"), ("/v1/messages", "sesame", "strong-1")], 2 * 4 * TRIES
    )

    pupil, run = str(tmp_path / "pupil.toml"), tmp_path / "runs" / "pupil"
    out = await done("run", pupil, timeout_s=1200)
    (warm,) = run.glob("weights/warm-*")
    taught = read(warm / "sft.json")
    assert (taught["trained"], taught["refused"]) == (2 * 4 * TRIES, {})
    assert taught["loss"][-1]["loss"] < 0.1 * taught["loss"][0]["loss"]
    summary = read(run / "summary.json")
    assert summary["max_logprob_gap"] < 1e-4
    assert summary["heldout_before"] <= 0.65, out  # no better than chance has the teacher
    assert summary["heldout_after"] >= summary["heldout_before"] + 0.25, out

    for label, model in (("warm", str(warm)), ("learned", "pupil@8")):
        await done("eval", pupil, "--model", model, "-n", "8", "--set", f"run.id={label}", "--set", "run.seed=1")
    compared = json.loads(await done("eval", "compare", "warm", "learned", "--root", f"{tmp_path}/runs", "--json"))
    (line,) = compared["lines"]
    assert line["success"]["difference"]["value"] > 0.2, compared
    assert line["success"]["difference"]["tasks"] == len(COLOURS)

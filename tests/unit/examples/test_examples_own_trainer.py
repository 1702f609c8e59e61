"""The trainer without veRL: from a file of groups to weights that prefer what was rewarded."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

from examples.own_trainer import learn
from shared.events import GroupCompleted, Row, Span, TokenCounts, Trajectory, encode
from shared.packing import pack_floats, pack_ids, pack_mask
from tests.engine.tiny_model import make_model

REPO = Path(__file__).parents[3]
PROMPT, GOOD, BAD, UNTRAINED = [10, 11, 12], [20, 21], [30, 31, 32], [40]


@pytest.fixture(scope="module")
def model_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tiny")
    make_model(folder)
    return folder


def trajectory(number: int, completion: list[int], reward: float) -> Trajectory:
    """A trajectory of one call; a token that is not trained follows what was sampled."""
    ids, trained = [*PROMPT, *completion, *UNTRAINED], len(completion)
    row = Row(
        prompt_len=len(PROMPT), ids=pack_ids(ids), response_mask=pack_mask([0] * 3 + [1] * trained + [0]),
        logprobs=pack_floats([0.0] * len(ids)), spans=[Span(seq=1, start=3, end=3 + trained, after=0)],
    )  # fmt: skip
    tokens = TokenCounts(sampled=trained, trained=trained)
    return Trajectory(rollout_id=f"r{number}", attempt=1, task="t", harness="h", reward=reward, tokens=tokens, rows=[row])


GROUP = [trajectory(0, GOOD, 1.0), trajectory(1, BAD, 0.0)]


def logp(model: torch.nn.Module, completion: list[int]) -> torch.Tensor:
    """Mean log-probability of a completion's tokens."""
    ids = torch.tensor([PROMPT + completion])
    logps: torch.Tensor = model(ids).logits[0, :-1].log_softmax(-1).gather(-1, ids[0, 1:, None])[len(PROMPT) - 1 :, 0]
    return logps.mean()


def test_what_was_rewarded_becomes_likelier_and_what_was_not_unlikelier(model_folder: Path) -> None:
    model = AutoModelForCausalLM.from_pretrained(model_folder)
    before = logp(model, GOOD), logp(model, BAD)
    learn(model, torch.optim.AdamW(model.parameters(), lr=1e-3), GROUP)
    assert logp(model, GOOD) > before[0]
    assert logp(model, BAD) < before[1]


def test_the_gradient_is_that_of_the_formula(model_folder: Path) -> None:
    """A is +-1/sqrt(2) for two rewards 1 and 0; plain SGD moves against the gradient."""
    model = AutoModelForCausalLM.from_pretrained(model_folder)
    head = model.lm_head.weight
    loss = -sum(a * logp(model, c) for a, c in ((0.5**0.5, GOOD), (-(0.5**0.5), BAD))) / 2
    [expected] = torch.autograd.grad(loss, head)
    before = head.detach().clone()
    learn(model, torch.optim.SGD(model.parameters(), lr=1.0), GROUP)
    assert torch.allclose(before - head.detach(), expected, atol=1e-5)


def test_a_group_without_rows_changes_nothing(model_folder: Path) -> None:
    model = AutoModelForCausalLM.from_pretrained(model_folder)
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    bare = [Trajectory(rollout_id=f"r{n}", attempt=1, task="t", harness="h", reward=float(n)) for n in range(2)]
    learn(model, torch.optim.SGD(model.parameters(), lr=1.0), bare)
    assert all(torch.equal(before[name], p) for name, p in model.named_parameters())


def test_it_learns_from_a_file(model_folder: Path, tmp_path: Path) -> None:
    message = GroupCompleted(run_id="run", group_id="g", task="t", trajectories=GROUP)
    (tmp_path / "groups.jsonl").write_bytes(encode(message) + b"\n" + encode(message) + b"\n")
    files = map(str, (model_folder, tmp_path / "out", tmp_path / "groups.jsonl"))
    command = [sys.executable, "-m", "examples.own_trainer", *files, "2"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=REPO, check=True)
    assert done.stdout.count("2 rewards, mean 0.500, loss") == 2
    before, after = (load_file(folder / "model.safetensors") for folder in (model_folder, tmp_path / "out"))
    assert before.keys() == after.keys()
    assert not torch.equal(before["lm_head.weight"], after["lm_head.weight"])


def test_it_is_short_and_needs_no_service() -> None:
    text = (REPO / "examples" / "own_trainer.py").read_text()
    assert text.count("\n") < 60
    assert "services" not in text
    assert "verl" not in text

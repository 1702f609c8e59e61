"""The untrained model, and how the demo prepares and starts a run."""

from __future__ import annotations

from argparse import Namespace
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoTokenizer, LlamaForCausalLM

from examples.lookup.demo import CONFIG, ROWS, prepare, run_command
from examples.lookup.model import PREVIOUS_TOKEN_HEADS, build
from shared.config import resolve


@pytest.fixture(scope="module")
def model_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("lookup") / "model"
    build(folder, seed=0)
    return folder


def test_the_weights_come_from_the_seed(model_folder: Path, tmp_path: Path) -> None:
    for seed in (0, 1):
        build(tmp_path / str(seed), seed)
    weights = (model_folder / "model.safetensors").read_bytes()
    assert weights == (tmp_path / "0" / "model.safetensors").read_bytes()
    assert weights != (tmp_path / "1" / "model.safetensors").read_bytes()


def test_the_folder_holds_a_small_float_model_and_its_tokenizer(model_folder: Path) -> None:
    tensors = load_file(model_folder / "model.safetensors")
    assert {t.dtype for t in tensors.values()} == {torch.float32}
    assert 0.25e6 < sum(t.numel() for t in tensors.values()) < 0.35e6
    tokenizer = AutoTokenizer.from_pretrained(model_folder)
    assert len(tokenizer) <= len(tensors["model.embed_tokens.weight"])
    assert tokenizer.chat_template


def test_the_first_heads_look_at_the_previous_token(model_folder: Path) -> None:
    model = LlamaForCausalLM.from_pretrained(model_folder, attn_implementation="eager")
    ids = torch.randint(0, 500, (4, 60), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        # Without the head, which veRL replaces where it is loaded.
        first = model.model(ids, output_attentions=True).attentions[0]
    to_previous = torch.diagonal(first, offset=-1, dim1=-2, dim2=-1).mean(dim=(0, 2))
    assert (to_previous[:PREVIOUS_TOKEN_HEADS] > 0.5).all()
    assert (to_previous[PREVIOUS_TOKEN_HEADS:] < 0.1).all()


def test_two_demos_side_by_side_prepare_one_folder(tmp_path: Path) -> None:
    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(lambda _: prepare(tmp_path, seed=5, rows=4), range(2))
    assert first == second
    assert list(tmp_path.iterdir()) == [first]
    assert sorted(p.name for p in first.iterdir()) == ["model", "rows.parquet"]
    assert prepare(tmp_path, seed=5, rows=4) == first
    assert prepare(tmp_path, seed=5, rows=6) != first
    assert prepare(tmp_path, seed=5, harness="mini", rows=4) != first


def test_the_run_is_configured_by_the_example_and_the_options(tmp_path: Path) -> None:
    words = run_command(tmp_path / "seed-2", tmp_path, Namespace(seed=2, reward="coin", mode="splice", harness="mini", steps=3))
    assert words[:4] == ["-m", "services.cli", "run", str(CONFIG)]
    assert set(words[4::2]) == {"--set"}
    config = resolve(CONFIG, words[5::2], env={}).config
    assert (config.run.seed, config.orchestrator.reward, config.trainer.steps) == (2, "coin", 3)
    assert config.engine.model == str(tmp_path / "seed-2" / "model")
    assert config.trainer.warm_start.steps * config.trainer.warm_start.batch == ROWS
    assert config.tasks.train == str(CONFIG.parent / "tasks" / "train")
    assert config.run.root == str(CONFIG.parents[2] / "runs")
    assert (config.trainer.harness, config.trainer.groups) == ("mini", 6)
    assert config.orchestrator.harness_dir == str(CONFIG.parent / "harnesses")

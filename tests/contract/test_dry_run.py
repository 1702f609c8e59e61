"""`openforge check --dry-run` on the GPU examples: with the real models' shapes, and with tiny stand-ins for their weights."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.real, pytest.mark.slow, pytest.mark.timeout(600)]

EXAMPLES = Path(__file__).parents[2] / "examples" / "gpu"
QWEN3_30B = {
    "architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe", "vocab_size": 151936, "hidden_size": 2048,
    "intermediate_size": 6144, "moe_intermediate_size": 768, "num_hidden_layers": 48, "num_attention_heads": 32,
    "num_key_value_heads": 4, "head_dim": 128, "num_experts": 128, "num_experts_per_tok": 8, "norm_topk_prob": True,
    "max_position_embeddings": 40960, "tie_word_embeddings": False, "decoder_sparse_step": 1,
}  # fmt: skip
QWEN3_VL_8B = {
    "architectures": ["Qwen3VLForConditionalGeneration"], "model_type": "qwen3_vl", "tie_word_embeddings": False,
    "image_token_id": 151655, "video_token_id": 151656, "vision_start_token_id": 151652, "vision_end_token_id": 151653,
    "text_config": {
        "model_type": "qwen3_vl_text", "vocab_size": 151936, "hidden_size": 4096, "intermediate_size": 12288,
        "num_hidden_layers": 36, "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128,
        "max_position_embeddings": 262144,
        "rope_parameters": {
            "rope_type": "default", "rope_theta": 5000000, "mrope_section": [24, 20, 20], "mrope_interleaved": True,
        },
    },
    "vision_config": {
        "model_type": "qwen3_vl", "depth": 27, "hidden_size": 1152, "intermediate_size": 4304, "num_heads": 16,
        "out_hidden_size": 4096, "patch_size": 16, "spatial_merge_size": 2, "temporal_patch_size": 2,
        "num_position_embeddings": 2304, "deepstack_visual_indexes": [8, 16, 24],
    },
}  # fmt: skip


def check(example: str, model: Path, *sets: str) -> tuple[int, str]:
    """Exit status and output, without line breaks and the lines of its table."""
    argv = [sys.executable, "-m", "services.cli", "check", str(EXAMPLES / example), "--dry-run"]
    for each in (f"engine.model={model}", *sets):
        argv += ["--set", each]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    return done.returncode, " ".join((done.stdout + done.stderr).replace("│", " ").split())


def shaped(folder: Path, config: dict[str, Any]) -> Path:
    """A model folder without weights."""
    from tests.engine.tiny_model import make_tokenizer

    make_tokenizer().save_pretrained(folder)
    (folder / "config.json").write_text(json.dumps(config))
    return folder


@pytest.mark.parametrize(
    ("example", "config", "billions"),
    [
        ("claw-30b.toml", QWEN3_30B, "30.53"),
        ("computer-8b.toml", QWEN3_VL_8B, "8.77"),
        ("browser-8b.toml", QWEN3_VL_8B, "8.77"),
    ],
)
def test_an_example_fits_its_model(tmp_path: Path, example: str, config: dict[str, Any], billions: str) -> None:
    code, said = check(example, shaped(tmp_path / "model", config))
    assert code == 0, said
    assert f"{billions} billion" in said
    assert "everything divides" in said


def test_what_does_not_fit_is_told(tmp_path: Path) -> None:
    model = shaped(tmp_path / "model", QWEN3_30B)
    code, said = check("claw-30b.toml", model, "trainer.parallel.tensor_model_parallel_size=6", "trainer.parallel.nnodes=1")
    assert code == 1
    assert "does not divide the 8 processes" in said


def test_a_folder_that_holds_no_model_is_told(tmp_path: Path) -> None:
    code, said = check("claw-30b.toml", tmp_path)
    assert code == 1
    assert "not a model folder" in said

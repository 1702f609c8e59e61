"""A tiny random Qwen3-VL with the tokenizer of `tiny_model` and placeholders of images.

``python -m tests.engine.vision_model OUT [SEED]``
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from transformers import Qwen3VLConfig, Qwen3VLForConditionalGeneration
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

from tests.engine.tiny_model import TEMPLATE, make_tokenizer

MAX_LENGTH = 2048
PLACEHOLDERS = ("<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>")
_TEXT = "{{ m.content if m.content is string else m.content | map(attribute='text') | join('') }}"
_PARTS = (
    "{% if m.content is string %}{{ m.content }}{% else %}{% for part in m.content %}"
    "{{ part.text if part.type == 'text' else '<|vision_start|><|image_pad|><|vision_end|>' }}{% endfor %}{% endif %}"
)


def make_vision_model(out: Path, seed: int = 0) -> Path:
    """Writes model, tokenizer and image processor in Hugging Face format to `out`."""
    tokenizer = make_tokenizer()
    tokenizer.add_special_tokens({"additional_special_tokens": list(PLACEHOLDERS)})
    start, _, image, video = tokenizer.convert_tokens_to_ids(list(PLACEHOLDERS))
    assert _TEXT in TEMPLATE, "the template of tiny_model has changed"
    tokenizer.chat_template = TEMPLATE.replace(_TEXT, _PARTS)
    tokenizer.save_pretrained(out)
    _processor().save_pretrained(out)
    torch.manual_seed(seed)
    ends = {"eos_token_id": tokenizer.eos_token_id, "pad_token_id": tokenizer.pad_token_id, "bos_token_id": None}
    config = Qwen3VLConfig(
        text_config=_text_config((len(tokenizer) + 63) // 64 * 64) | ends, vision_config=_vision_config(),
        image_token_id=image, video_token_id=video, vision_start_token_id=start, tie_word_embeddings=False, **ends,
    )  # fmt: skip
    Qwen3VLForConditionalGeneration(config).float().save_pretrained(out, safe_serialization=True)
    return out


def _processor() -> Qwen2VLImageProcessorPil:
    size = {"shortest_edge": 32 * 32, "longest_edge": 128 * 128}
    return Qwen2VLImageProcessorPil(
        patch_size=16, temporal_patch_size=2, merge_size=2, size=size, image_mean=[0.5] * 3, image_std=[0.5] * 3
    )


def _text_config(vocab_size: int) -> dict[str, object]:
    rope = {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [6, 5, 5], "mrope_interleaved": True}
    return {
        "vocab_size": vocab_size, "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 2,
        "num_key_value_heads": 1, "head_dim": 32, "max_position_embeddings": MAX_LENGTH, "rope_parameters": rope,
        "initializer_range": 0.08,
    }  # fmt: skip


def _vision_config() -> dict[str, object]:
    return {
        "depth": 2, "hidden_size": 32, "intermediate_size": 64, "num_heads": 2, "patch_size": 16, "temporal_patch_size": 2,
        "spatial_merge_size": 2, "out_hidden_size": 64, "num_position_embeddings": 64, "deepstack_visual_indexes": [0],
        "initializer_range": 0.08,
    }  # fmt: skip


if __name__ == "__main__":
    make_vision_model(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0)

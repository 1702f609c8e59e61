"""A tiny random Qwen3 with the real tokenizer and template of `real_tokenizer`, and a context long enough for coding agents."""

from __future__ import annotations

from pathlib import Path

import torch
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

from tests.engine.real_tokenizer import TEMPLATE, tokenizer

MAX_LENGTH = 40960


def make_long_model(out: Path, seed: int = 0) -> Path:
    """Writes model and tokenizer in Hugging Face format to `out`."""
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer(), eos_token="<|im_end|>", pad_token="<|endoftext|>", clean_up_tokenization_spaces=False,
        model_max_length=MAX_LENGTH,
    )  # fmt: skip
    fast.chat_template = TEMPLATE.read_text(encoding="utf-8")
    fast.save_pretrained(out)
    torch.manual_seed(seed)
    config = Qwen3Config(
        vocab_size=(len(fast) + 63) // 64 * 64,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=32,
        max_position_embeddings=MAX_LENGTH,
        tie_word_embeddings=False,
        eos_token_id=fast.eos_token_id,
        pad_token_id=fast.pad_token_id,
        bos_token_id=None,
        initializer_range=0.08,
    )
    Qwen3ForCausalLM(config).float().save_pretrained(out, safe_serialization=True)
    return out

"""A tiny random Llama whose output head is its embeddings, with the tokenizer of `tiny_model`."""

from __future__ import annotations

from pathlib import Path

import torch
from transformers import LlamaConfig, LlamaForCausalLM

from tests.engine.tiny_model import MAX_LENGTH, make_tokenizer


def make_tied_model(out: Path, seed: int = 0) -> Path:
    """Writes model and tokenizer in Hugging Face format to `out`."""
    tokenizer = make_tokenizer()
    tokenizer.save_pretrained(out)
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=(len(tokenizer) + 63) // 64 * 64,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=2,
        max_position_embeddings=MAX_LENGTH,
        tie_word_embeddings=True,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=None,
        initializer_range=0.08,
    )
    LlamaForCausalLM(config).float().save_pretrained(out, safe_serialization=True)
    return out

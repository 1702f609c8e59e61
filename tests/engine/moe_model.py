"""A tiny random Qwen3 mixture of eight experts, two a token, with the tokenizer of `tiny_model`.

``python -m tests.engine.moe_model OUT [SEED]``
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from transformers import Qwen3MoeConfig, Qwen3MoeForCausalLM

from tests.engine.tiny_model import MAX_LENGTH, make_tokenizer

EXPERTS, CHOSEN, LAYERS = 8, 2, 2


def make_moe_model(out: Path, seed: int = 0) -> Path:
    """Writes model and tokenizer in Hugging Face format to `out`."""
    tokenizer = make_tokenizer()
    tokenizer.save_pretrained(out)
    torch.manual_seed(seed)
    config = Qwen3MoeConfig(
        vocab_size=(len(tokenizer) + 63) // 64 * 64,
        hidden_size=64,
        intermediate_size=128,
        moe_intermediate_size=64,
        num_hidden_layers=LAYERS,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=32,
        num_experts=EXPERTS,
        num_experts_per_tok=CHOSEN,
        norm_topk_prob=True,
        decoder_sparse_step=1,
        max_position_embeddings=MAX_LENGTH,
        tie_word_embeddings=False,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=None,
        initializer_range=0.08,
    )
    Qwen3MoeForCausalLM(config).float().save_pretrained(out, safe_serialization=True)
    return out


if __name__ == "__main__":
    make_moe_model(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0)
